package micropay

import (
	"bytes"
	"crypto/sha3"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// settlementVector is an entry of testdata/settlements.json, recorded from the public client.
type settlementVector struct {
	Name            string
	Micropayment    string `json:"micropayment_base64"`
	ReceiverScheme  string `json:"receiver_scheme"`
	ReceiverKey     string `json:"receiver_private_key"`
	ReceiverAddress string `json:"receiver_address"`
	Submitted       string `json:"submitted_hex"`
	Hash            string `json:"transaction_hash"`
}

func settlementVectors(t testing.TB) []settlementVector {
	t.Helper()
	var file struct{ Vectors []settlementVector }
	testenv.OK(t, json.Unmarshal(testenv.Must(os.ReadFile("testdata/settlements.json"))(t), &file))
	if len(file.Vectors) != 20 {
		t.Fatalf("%d vectors, want 20", len(file.Vectors))
	}
	return file.Vectors
}

// signer returns the receiver's signer. The vectors spell its key without a type.
func (v *settlementVector) signer(t testing.TB) *Signer {
	t.Helper()
	text := v.ReceiverKey
	if v.ReceiverScheme == "single-secp256k1" {
		text = "secp256k1-priv-" + text
	}
	return testenv.Must(NewSignerOf(address(t, v.ReceiverAddress), testenv.Must(ParsePrivateKey(text))(t)))(t)
}

func TestCollectReturnsTheBytesOfThePublicClient(t *testing.T) {
	for _, v := range settlementVectors(t) {
		m := testenv.Must(ParseBase64(v.Micropayment))(t)
		got := testenv.Must(m.Collect(v.signer(t)))(t)
		if hex.EncodeToString(got.Body) != v.Submitted || got.Hash.String() != v.Hash {
			t.Errorf("%s: %x, %v\nwant %s, %s", v.Name, got.Body, got.Hash, v.Submitted, v.Hash)
		}
		checkTransaction(t, m, got)
		checkSimulation(t, m, v.signer(t))
	}
}

// checkTransaction decodes a transaction and makes the chain's checks.
func checkTransaction(t testing.TB, m *Micropayment, c *Transaction) {
	t.Helper()
	r := &reader{rest: c.Body}
	raw := r.take(m.signed - secondarySignerSize)
	kind := r.u8()
	sender := r.authenticator()
	signers, secondary := r.uleb(), r.address()
	proofs, second := r.uleb(), r.authenticator()
	payer, paid := r.address(), r.authenticator()
	if r.err != nil || len(r.rest) > 0 {
		t.Fatalf("%v, %d bytes left", r.err, len(r.rest))
	}
	if !bytes.Equal(raw, m.raw[:len(raw)]) || kind != 3 || signers != 1 || proofs != 1 || secondary != m.Receiver || payer != m.Receiver {
		t.Errorf("kind %d, %d signers, %d authenticators of them, secondary signer %v, fee payer %v", kind, signers, proofs, secondary, payer)
	}
	if !bytes.Equal(sender.append(nil), m.auth.append(nil)) {
		t.Error("the sender's authenticator differs")
	}
	message := bytes.Clone([]byte(signingPrefix))
	message = append(append(append(message, raw...), 1), secondary[:]...)
	message = append(message, payer[:]...)
	for _, a := range []authenticator{second, paid} {
		if a.address() != m.Receiver || len(a.signatures) != 1 {
			t.Errorf("the authenticator belongs to %v, with %d signatures", a.address(), len(a.signatures))
			continue
		}
		testenv.Check(t, a.keys[0].verify(message, a.signatures[0]))
	}
	prefix := sha3.Sum256([]byte("APTOS::Transaction"))
	if c.Hash != sha3.Sum256(append(append(prefix[:], 0), c.Body...)) {
		t.Errorf("the hash is %v", c.Hash)
	}
}

// FuzzCollect collects and simulates any micropayment that can be parsed, as a receiver of each
// scheme.
// Invariant 175.
func FuzzCollect(f *testing.F) {
	for _, v := range settlementVectors(f) {
		f.Add(fromBase64(f, v.Micropayment), byte(0))
	}
	_, all := vectors(f)
	for i, v := range all {
		if v.Valid {
			f.Add(fromBase64(f, v.Header), byte(i))
		}
	}
	receivers := []*Signer{}
	for _, scheme := range []struct {
		Scheme
		KeyType
	}{{SchemeEd25519, KeyEd25519}, {SchemeSingleKey, KeyEd25519}, {SchemeSingleKey, KeySecp256k1}} {
		receivers = append(receivers, testenv.Must(NewSigner(scheme.Scheme, testKey(f, scheme.KeyType, 7)))(f))
	}
	f.Fuzz(func(t *testing.T, b []byte, which byte) {
		m, err := Parse(b)
		if err != nil {
			return
		}
		receiver := receivers[int(which)%len(receivers)]
		address := receiver.Address()
		copy(b[m.signed-len(address):], address[:])
		m = testenv.Must(Parse(b))(t)
		checkTransaction(t, m, testenv.Must(m.Collect(receiver))(t))
		checkSimulation(t, m, receiver)
	})
}

func TestParsePrivateKey(t *testing.T) {
	// The key of RFC 8032, section 7.1, test 1.
	const seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
	const public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
	for _, text := range []string{seed, "0x" + seed, "ed25519-priv-0x" + seed, "0x" + strings.ToUpper(seed)} {
		key, err := ParsePrivateKey(text)
		if err != nil || key.Public().Type != KeyEd25519 || hex.EncodeToString([]byte(key.Public().Bytes)) != public {
			t.Errorf("%q: %+v, %v", text, key.Public(), err)
		}
	}
	if key, err := ParsePrivateKey("secp256k1-priv-0x" + seed); err != nil || key.Public().Type != KeySecp256k1 {
		t.Errorf("%+v, %v", key.Public(), err)
	}
	for _, text := range []string{
		"", "0x", seed[2:], seed + "00", "zz" + seed[2:], " " + seed, "ed25519-priv-" + seed, "secp256k1-priv-" + seed,
		"ed25519-pub-0x" + seed, "0xed25519-priv-" + seed, "ed25519-priv-0x0x" + seed, "secp256k1-priv-0x" + strings.Repeat("0", 64),
	} {
		_, err := ParsePrivateKey(text)
		if !errors.Is(err, ErrKey) || strings.Contains(err.Error(), seed[4:20]) {
			t.Errorf("%q: error %v, want ErrKey without the key", text, err)
		}
	}
}

func TestAnEd25519KeyHasTwoAddresses(t *testing.T) {
	key, other := testKey(t, KeyEd25519, 1), testKey(t, KeyEd25519, 2)
	addresses := map[Address]bool{}
	for _, scheme := range []Scheme{SchemeEd25519, SchemeSingleKey} {
		want := testenv.Must(NewSigner(scheme, key))(t)
		addresses[want.Address()] = true
		got, err := NewSignerOf(want.Address(), key)
		if err != nil || got.Address() != want.Address() {
			t.Errorf("%v: %v", scheme, err)
		}
		testenv.Is(t, testenv.Error(NewSignerOf(want.Address(), other)), ErrKey, "%v with another key", scheme)
	}
	testenv.Equal(t, len(addresses), 2, "addresses")
}
