package micropay

import (
	"crypto/sha3"
	"slices"
	"strings"
	"testing"

	"sluice/test/testenv"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
)

// resign returns b with its last field, a signature of 64 bytes, replaced.
func resign(b []byte, change func(sig []byte)) []byte {
	b = slices.Clone(b)
	change(b[len(b)-signatureSize:])
	return b
}

func TestSecp256k1HighSIsRefused(t *testing.T) {
	b := genuine(t)["single-secp256k1"]
	high := resign(b, func(sig []byte) {
		var s secp256k1.ModNScalar
		s.SetByteSlice(sig[32:])
		negated := s.Negate().Bytes()
		copy(sig[32:], negated[:])
	})
	m := testenv.Must(Parse(high))(t)
	var r, s secp256k1.ModNScalar
	r.SetByteSlice(high[len(high)-64 : len(high)-32])
	s.SetByteSlice(high[len(high)-32:])
	key := testenv.Must(secp256k1.ParsePubKey([]byte(m.auth.keys[0].Bytes)))(t)
	hash := sha3.Sum256(m.SigningMessage())
	if !ecdsa.NewSignature(&r, &s).Verify(hash[:], key) {
		t.Fatal("the library refuses high S itself, so this test shows nothing")
	}
	if err := m.Verify(); reason(err) != ReasonBadSignature || class(err) != ClassSignature {
		t.Errorf("high S: %v", err)
	}
}

func TestSecp256k1ScalarsOutOfRangeAreRefused(t *testing.T) {
	b := genuine(t)["single-secp256k1"]
	order := secp256k1.Params().N.Bytes()
	for name, change := range map[string]func(sig []byte){
		"r = 0": func(sig []byte) { clear(sig[:32]) },
		"s = 0": func(sig []byte) { clear(sig[32:]) },
		"r = n": func(sig []byte) { copy(sig, order) },
		"s = n": func(sig []byte) { copy(sig[32:], order) },
	} {
		if err := verified(resign(b, change)); reason(err) != ReasonBadSignature {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A hybrid key (SEC 1, first byte 06 or 07) encodes the same point differently, hence has another
// address. Even with the right address it is not a valid key.
func TestHybridKeyIsRefused(t *testing.T) {
	key := testKey(t, KeySecp256k1, 0x33)
	hybrid := []byte(key.Public().Bytes)
	hybrid[0] = 6 | hybrid[64]&1
	if _, err := secp256k1.ParsePubKey(hybrid); err != nil {
		t.Fatal("the library refuses it already, so this test shows nothing")
	}
	a := authenticator{scheme: SchemeSingleKey, required: 1, keys: []PublicKey{{KeySecp256k1, string(hybrid)}}}
	if err := seal(t, Payment{}, a, key.sign).Verify(); reason(err) != ReasonWeakKey {
		t.Errorf("hybrid key: %v", err)
	}
}

// The chain cannot parse a transaction with a key that is not a point, so keys that did not sign
// are checked too.
func TestEveryKeyMustBeValid(t *testing.T) {
	good := testKey(t, KeyEd25519, 1)
	offCurve := make([]byte, 32)
	offCurve[0] = 2
	if _, exists := edwards25519(t).withY(fromLittle(offCurve)); exists {
		t.Fatal("y = 2 is on the curve")
	}
	beyond := encodePoint(edwards25519(t).p, 0)
	beyond[0] += 3 // y = p+3, another encoding of 3, which is on the curve
	lone := authenticator{scheme: SchemeEd25519, required: 1, keys: []PublicKey{{KeyEd25519, string(beyond)}}}
	if err := seal(t, Payment{}, lone, good.sign).Verify(); reason(err) != ReasonWeakKey {
		t.Errorf("signing key not canonical: %v", err)
	}
	for name, bad := range map[string]PublicKey{
		"Ed25519 off the curve":   {KeyEd25519, string(offCurve)},
		"Ed25519 of small order":  {KeyEd25519, "\x01" + strings.Repeat("\x00", 31)},
		"Ed25519 not canonical":   {KeyEd25519, string(beyond)},
		"secp256k1 off the curve": {KeySecp256k1, "\x04" + strings.Repeat("\x01", 64)},
	} {
		a := authenticator{scheme: SchemeMultiKey, required: 1, keys: []PublicKey{good.Public(), bad}}
		if err := seal(t, Payment{}, a, good.sign).Verify(); reason(err) != ReasonWeakKey {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := NewMultiSigner(SchemeMultiKey, a.keys, 1, good); err == nil {
			t.Errorf("%s: NewMultiSigner accepts it", name)
		}
	}
	spare := authenticator{scheme: SchemeMultiKey, required: 1,
		keys: []PublicKey{good.Public(), testKey(t, KeySecp256k1, 1).Public(), testKey(t, KeyEd25519, 2).Public()}}
	if err := seal(t, Payment{}, spare, good.sign).Verify(); err != nil {
		t.Errorf("valid unused keys: %v", err)
	}
}

func TestSignatureOfAnotherTypeIsRefused(t *testing.T) {
	b := genuine(t)["single-ed25519"]
	if err := verified(splice(b, 306, 1, byte(KeySecp256k1))); reason(err) != ReasonBadSignature {
		t.Errorf("secp256k1 signature of an Ed25519 key: %v", err)
	}
}

// The same key has another address in every scheme, so an authenticator of one scheme is never
// valid for another.
func TestSchemesHaveTheirOwnAddresses(t *testing.T) {
	seen := map[Address]string{}
	key := testKey(t, KeyEd25519, 1)
	for _, a := range []authenticator{
		{scheme: SchemeEd25519, required: 1, keys: publics(key)},
		{scheme: SchemeSingleKey, required: 1, keys: publics(key)},
		{scheme: SchemeMultiEd25519, required: 1, keys: publics(key)},
		{scheme: SchemeMultiKey, required: 1, keys: publics(key)},
		{scheme: SchemeMultiKey, required: 1, keys: publics(key, key)},
		{scheme: SchemeMultiKey, required: 2, keys: publics(key, key)},
	} {
		if other, taken := seen[a.address()]; taken {
			t.Errorf("%v has the address of %v", a.scheme, other)
		}
		seen[a.address()] = a.scheme.String()
	}
	if got := Scheme(7).String(); got != "Scheme(7)" {
		t.Error(got)
	}
}
