package fullnode_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sluice/micropay"
	"sluice/test/fullnode"
	"sluice/test/testenv"
)

type account struct {
	name     string
	signer   *micropay.Signer
	everyKey bool // signs
}

// accounts returns accounts of every scheme, with keys derived from seed.
func accounts(t *testing.T, seed byte) []account {
	t.Helper()
	key := func(kind micropay.KeyType, n byte) micropay.PrivateKey {
		k := testenv.Must(micropay.NewPrivateKey(kind, bytes.Repeat([]byte{seed + n}, 32)))(t)
		return k
	}
	ok := func(s *micropay.Signer, err error) *micropay.Signer {
		testenv.OK(t, err)
		return s
	}
	ed := []micropay.PrivateKey{key(micropay.KeyEd25519, 0), key(micropay.KeyEd25519, 1), key(micropay.KeyEd25519, 2)}
	mixed := []micropay.PrivateKey{ed[0], key(micropay.KeySecp256k1, 1), ed[2]}
	public := func(keys []micropay.PrivateKey) (list []micropay.PublicKey) {
		for _, k := range keys {
			list = append(list, k.Public())
		}
		return list
	}
	return []account{
		{"Ed25519", ok(micropay.NewSigner(micropay.SchemeEd25519, ed[0])), true},
		{"SingleKey Ed25519", ok(micropay.NewSigner(micropay.SchemeSingleKey, ed[0])), true},
		{"SingleKey secp256k1", ok(micropay.NewSigner(micropay.SchemeSingleKey, mixed[1])), true},
		{"MultiKey, all of 3", ok(micropay.NewMultiSigner(micropay.SchemeMultiKey, public(mixed), 2, mixed...)), true},
		{"MultiKey, 2 of 3", ok(micropay.NewMultiSigner(micropay.SchemeMultiKey, public(mixed), 2, mixed[1:]...)), false},
		{"MultiEd25519, all of 3", ok(micropay.NewMultiSigner(micropay.SchemeMultiEd25519, public(ed), 2, ed...)), true},
		{"MultiEd25519, 2 of 3", ok(micropay.NewMultiSigner(micropay.SchemeMultiEd25519, public(ed), 2, ed[0], ed[2])), false},
	}
}

// TestSimulationsOfThePublicPackage compares Micropayment.Simulation with the chain's npm package:
// payments in every form, from accounts of every scheme, to accounts of every scheme with one key.
// Invariant 175.
func TestSimulationsOfThePublicPackage(t *testing.T) {
	testenv.Require(t, testenv.NPM)
	type simulation struct {
		Micropayment string `json:"micropayment"`
		Receiver     string `json:"receiver"`
	}
	var inputs []simulation
	var ours, names []string
	var senders []account
	for _, sender := range accounts(t, 0x21) {
		for _, receiver := range accounts(t, 0x41)[:3] {
			for _, form := range []micropay.Form{micropay.FormNonce, micropay.FormSequence, micropay.FormPlain} {
				p := micropay.Payment{
					Receiver: receiver.signer.Address(), Asset: micropay.Address{1}, Amount: 7, PaymentChannelID: 5, Sequence: 3, ModuleAddress: micropay.Address{2},
					ChainID: fullnode.DefaultChainID, Expiration: uint64(start.Unix()) + 60, Form: form, AccountSequence: 9, MaxGas: 200_000, GasPrice: 100,
				}
				if form == micropay.FormNonce {
					p.Nonce = 12345
				}
				m := testenv.Must(sender.signer.Sign(p))(t)
				body := testenv.Must(m.Simulation(receiver.signer))(t)
				ours = append(ours, hex.EncodeToString(body))
				names = append(names, fmt.Sprintf("%v from %s to %s", form, sender.name, receiver.name))
				senders = append(senders, sender)
				inputs = append(inputs, simulation{m.Base64(), hex.EncodeToString(authenticatorOf(t, m, receiver.signer))})
			}
		}
	}
	var theirs []struct{ Package, Classes string }
	runScript(t, "simulations.mjs", inputs, &theirs)
	if len(theirs) != len(ours) || len(ours) != 63 {
		t.Fatalf("%d simulations of the package, %d of ours", len(theirs), len(ours))
	}
	for i, got := range theirs {
		if got.Classes != ours[i] {
			t.Errorf("%s: simulated %s\nthe classes of the package encode %s", names[i], ours[i], got.Classes)
		}
		switch of := senders[i]; {
		case strings.HasPrefix(of.name, "MultiEd25519"):
			if got.Package != "Unsupported PublicKey used for simulations" {
				t.Errorf("%s: the package simulates %s", names[i], got.Package)
			}
		case of.everyKey != (got.Package == ours[i]):
			t.Errorf("%s: simulated %s\nthe package simulates %s", names[i], ours[i], got.Package)
		}
	}
}

// authenticatorOf returns a receiver's authenticator. A transaction ends with it, after the
// receiver's address.
func authenticatorOf(t *testing.T, m *micropay.Micropayment, receiver *micropay.Signer) []byte {
	t.Helper()
	c := testenv.Must(m.Collect(receiver))(t)
	address := receiver.Address()
	return c.Body[bytes.LastIndex(c.Body, address[:])+len(address):]
}

// TestSimulationsThatEstimate asks for simulations with the queries that the chain's package adds.
// The fullnode estimates nothing.
func TestSimulationsThatEstimate(t *testing.T) {
	n := fullnode.Start(t, fullnode.Options{Clock: start})
	v := readRecorded(t)[0]
	for query, want := range map[string]string{
		"": "invalid_input",
		"?estimate_gas_unit_price=false&estimate_max_gas_amount=false&estimate_prioritized_gas_unit_price=false": "invalid_input",
		"?estimate_gas_unit_price=true": "web_framework_error",
	} {
		if status, answer := ask(t, http.MethodPost, n.URL()+"/transactions/simulate"+query, string(v.body(t))); status < 400 || answer.Code != want {
			t.Errorf("%q: %d %+v, want %s", query, status, answer, want)
		}
	}
	if executed := n.Executed(); len(executed) > 0 {
		t.Errorf("executed %+v", executed)
	}
}
