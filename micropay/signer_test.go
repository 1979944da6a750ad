package micropay

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// Random payments survive signing and parsing, for every kind of signer.
func TestSignParseVerify(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	address := func() (a Address) {
		for i := range a {
			a[i] = byte(random.Uint32())
		}
		return a
	}
	for _, s := range signers(t) {
		for range 10 {
			p := Payment{
				Receiver: address(), Asset: address(), ModuleAddress: address(),
				Amount: random.Uint64(), PaymentChannelID: random.Uint64(), Sequence: random.Uint64(),
				ChainID: uint8(random.Uint32()), Expiration: random.Uint64(), Form: Form(random.IntN(3)),
				AccountSequence: random.Uint64(), MaxGas: random.Uint64(), GasPrice: random.Uint64(),
			}
			if p.Form == FormNonce {
				p.Nonce = random.Uint64()
			}
			m := testenv.Must(s.Sign(p))(t)
			got := testenv.Must(Parse(m.Bytes()))(t)
			p.Sender = s.Address()
			if err := got.Verify(); err != nil || got.Payment != p {
				t.Errorf("%v: %v\ngot  %+v\nwant %+v", got.Scheme(), err, got.Payment, p)
			}
		}
		testenv.Is(t, testenv.Error(s.Sign(Payment{Form: 3})), ErrMalformed, "an unknown form")
	}
}

func TestInvalidSigners(t *testing.T) {
	ed, ed2 := testKey(t, KeyEd25519, 1), testKey(t, KeyEd25519, 2)
	secp := testKey(t, KeySecp256k1, 1)
	multi := func(s Scheme, keys []PublicKey, required int, private ...PrivateKey) func() error {
		return func() error { return testenv.Error(NewMultiSigner(s, keys, required, private...)) }
	}
	one := func(s Scheme, k PrivateKey) func() error {
		return func() error { return testenv.Error(NewSigner(s, k)) }
	}
	key := func(kind KeyType, secret []byte) func() error {
		return func() error { return testenv.Error(NewPrivateKey(kind, secret)) }
	}
	for name, try := range map[string]func() error{
		"legacy scheme with secp256k1":     one(SchemeEd25519, secp),
		"one key for MultiKey":             one(SchemeMultiKey, ed),
		"zero private key":                 one(SchemeSingleKey, PrivateKey{}),
		"several keys for SingleKey":       multi(SchemeSingleKey, publics(ed), 1, ed),
		"no keys":                          multi(SchemeMultiKey, nil, 0),
		"threshold 0":                      multi(SchemeMultiKey, publics(ed), 0, ed),
		"threshold above keys":             multi(SchemeMultiKey, publics(ed), 2, ed),
		"33 keys":                          multi(SchemeMultiKey, make([]PublicKey, 33), 1, ed),
		"secp256k1 in MultiEd25519":        multi(SchemeMultiEd25519, publics(ed, secp), 1, ed),
		"unknown type of key":              multi(SchemeMultiKey, []PublicKey{ed.Public(), {Type: 2, Bytes: secp.Public().Bytes}}, 1, ed),
		"short public key":                 multi(SchemeMultiKey, []PublicKey{ed.Public(), {KeySecp256k1, ""}}, 1, ed),
		"too few private keys":             multi(SchemeMultiKey, publics(ed, ed2), 2, ed),
		"private key of another account":   multi(SchemeMultiKey, publics(ed), 1, ed2),
		"repeated private key":             multi(SchemeMultiKey, publics(ed, ed2), 2, ed, ed),
		"one private key for a twin":       multi(SchemeMultiKey, publics(ed, ed), 2, ed, ed),
		"seed of 31 bytes":                 key(KeyEd25519, make([]byte, 31)),
		"secp256k1 secret of zero":         key(KeySecp256k1, make([]byte, 32)),
		"secp256k1 secret above the order": key(KeySecp256k1, bytes.Repeat([]byte{255}, 32)),
		"key of another type":              key(2, make([]byte, 32)),
	} {
		testenv.Is(t, try(), ErrKey, "%s", name)
	}
}

// No usual way of printing reveals a secret key.
func TestSecretsAreNotPrinted(t *testing.T) {
	for _, kind := range []KeyType{KeyEd25519, KeySecp256k1} {
		secret := []byte("a secret that is 32 bytes long !")
		k := testenv.Must(NewPrivateKey(kind, secret))(t)
		s := testenv.Must(NewSigner(SchemeSingleKey, k))(t)
		var out bytes.Buffer
		slog.New(slog.NewTextHandler(&out, nil)).Info("text", "key", k, "signer", s)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("json", "key", k, "signer", s)
		for _, v := range []any{k, &k, s, *s, []PrivateKey{k}} {
			fmt.Fprintf(&out, "%v %+v %#v %x %s", v, v, v, v, v)
			if b, err := json.Marshal(v); err == nil { // a closure may also be refused
				out.Write(b)
			}
		}
		printed := out.String()
		for _, form := range []string{
			string(secret), hex.EncodeToString(secret),
			strings.Trim(fmt.Sprintf("%v", secret), "[]"),
			strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%#v", secret), "[]byte{"), "}"),
		} {
			if strings.Contains(printed, form) {
				t.Errorf("type %d: the output contains %q", kind, form)
			}
		}
	}
}
