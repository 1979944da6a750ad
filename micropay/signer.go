package micropay

import (
	"crypto/ed25519"
	"crypto/sha3"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
)

// ErrKey means that a key is invalid, or that keys do not fit together. It is wrapped.
var ErrKey = errors.New("micropay: unusable key")

// PrivateKey is a private key. The zero value is not usable.
type PrivateKey struct {
	public PublicKey
	// sign holds the secret in a closure, so that fmt, loggers and encoders cannot print it.
	sign func(message []byte) []byte
}

// NewPrivateKey returns the key for a secret of 32 bytes: RFC 8032's seed, or a big-endian
// secp256k1 scalar. It returns ErrKey if the secret is invalid.
func NewPrivateKey(t KeyType, secret []byte) (PrivateKey, error) {
	if len(secret) != 32 {
		return PrivateKey{}, fmt.Errorf("%w: %d bytes of secret, not 32", ErrKey, len(secret))
	}
	switch t {
	case KeyEd25519:
		key := ed25519.NewKeyFromSeed(secret)
		public := PublicKey{t, string(key[ed25519.SeedSize:])}
		return PrivateKey{public, func(message []byte) []byte { return ed25519.Sign(key, message) }}, nil
	case KeySecp256k1:
		var scalar secp256k1.ModNScalar
		if scalar.SetByteSlice(secret) || scalar.IsZero() {
			return PrivateKey{}, fmt.Errorf("%w: secp256k1 secret out of range", ErrKey)
		}
		key := secp256k1.NewPrivateKey(&scalar)
		public := PublicKey{t, string(key.PubKey().SerializeUncompressed())}
		return PrivateKey{public, func(message []byte) []byte { return signSecp256k1(key, message) }}, nil
	default:
		return PrivateKey{}, fmt.Errorf("%w: type %d", ErrKey, t)
	}
}

// The prefixes of private keys in AIP-80, before the hexadecimal digits.
const (
	ed25519Prefix   = "ed25519-priv-0x"
	secp256k1Prefix = "secp256k1-priv-0x"
)

// ParsePrivateKey parses a private key of 64 hexadecimal digits. Before them may stand
// ed25519-priv-0x or secp256k1-priv-0x, as in the chain's AIP-80; with 0x or nothing before them,
// it is an Ed25519 key. ParsePrivateKey returns ErrKey for anything else; the error does not repeat
// the text.
func ParsePrivateKey(text string) (PrivateKey, error) {
	t := KeyEd25519
	digits, ok := strings.CutPrefix(text, secp256k1Prefix)
	if ok {
		t = KeySecp256k1
	} else if digits, ok = strings.CutPrefix(text, ed25519Prefix); !ok {
		digits = strings.TrimPrefix(text, "0x")
	}
	secret, err := hex.DecodeString(digits)
	if err != nil || len(secret) != 32 {
		return PrivateKey{}, fmt.Errorf("%w: want 64 hexadecimal digits, with nothing, 0x, ed25519-priv-0x or secp256k1-priv-0x before them", ErrKey)
	}
	return NewPrivateKey(t, secret)
}

// Public returns the public key.
func (k PrivateKey) Public() PublicKey { return k.public }

// signSecp256k1 returns the deterministic signature of RFC 6979, with S in the lower half, as r
// and s in big-endian.
func signSecp256k1(key *secp256k1.PrivateKey, message []byte) []byte {
	hash := sha3.Sum256(message)
	sig := ecdsa.Sign(key, hash[:])
	r, s := sig.R(), sig.S()
	rb, sb := r.Bytes(), s.Bytes()
	return append(rb[:], sb[:]...)
}

// Signer signs micropayments of one account. It may be used concurrently.
type Signer struct {
	auth    authenticator // without signatures
	private []PrivateKey  // for the signatures, sorted by the key's index
	indices []int
}

// NewSigner returns a signer for an account with one key. The scheme must be SchemeEd25519, with an
// Ed25519 key, or SchemeSingleKey; otherwise NewSigner returns ErrKey.
func NewSigner(s Scheme, key PrivateKey) (*Signer, error) {
	if s != SchemeSingleKey && (s != SchemeEd25519 || key.public.Type != KeyEd25519) {
		return nil, fmt.Errorf("%w: scheme %v does not support the key", ErrKey, s)
	}
	return newSigner(s, []PublicKey{key.public}, 1, []PrivateKey{key})
}

// NewSignerOf returns a signer for the account with this address and one key. An Ed25519 key has
// two addresses, one for each scheme. NewSignerOf returns ErrKey if the address is neither.
func NewSignerOf(address Address, key PrivateKey) (*Signer, error) {
	for _, scheme := range []Scheme{SchemeEd25519, SchemeSingleKey} {
		if s, err := NewSigner(scheme, key); err == nil && s.Address() == address {
			return s, nil
		}
	}
	return nil, fmt.Errorf("%w: the key does not belong to %v", ErrKey, address)
}

// NewMultiSigner returns a signer for an account with 1 to 32 keys; at least required of them must
// sign. The scheme must be SchemeMultiEd25519, with Ed25519 keys, or SchemeMultiKey. All private
// keys will sign: there must be at least required of them, each for another entry of keys.
// Otherwise NewMultiSigner returns ErrKey.
func NewMultiSigner(s Scheme, keys []PublicKey, required int, private ...PrivateKey) (*Signer, error) {
	if s != SchemeMultiEd25519 && s != SchemeMultiKey {
		return nil, fmt.Errorf("%w: scheme %v does not support several keys", ErrKey, s)
	}
	if len(keys) > maxKeys || required < 1 || required > len(keys) {
		return nil, fmt.Errorf("%w: %d of %d keys", ErrKey, required, len(keys))
	}
	for _, k := range keys {
		if s == SchemeMultiEd25519 && k.Type != KeyEd25519 || k.Type > KeySecp256k1 || !k.valid() {
			return nil, fmt.Errorf("%w: a public key is invalid", ErrKey)
		}
	}
	return newSigner(s, keys, required, private)
}

func newSigner(s Scheme, keys []PublicKey, required int, private []PrivateKey) (*Signer, error) {
	signer := &Signer{auth: authenticator{scheme: s, keys: slices.Clone(keys), required: required}}
	for i, public := range keys {
		for _, p := range private {
			if p.public == public && p.sign != nil && !slices.Contains(keys[:i], public) {
				signer.private = append(signer.private, p)
				signer.indices = append(signer.indices, i)
				break
			}
		}
	}
	if len(signer.private) != len(private) || len(private) < required {
		return nil, fmt.Errorf("%w: %d of %d private keys belong to the account, %d are required",
			ErrKey, len(signer.private), len(private), required)
	}
	return signer, nil
}

// Address returns the account's address.
func (s *Signer) Address() Address { return s.auth.address() }

// Sign returns the micropayment for p, with Sender set to the signer's address. It is
// deterministic, and returns the same bytes as the public client.
func (s *Signer) Sign(p Payment) (*Micropayment, error) {
	p.Sender = s.Address()
	raw, signed := p.append(nil)
	auth := s.sign(signingMessage(raw, signed))
	return Parse(auth.append(raw))
}

// sign returns a message's authenticator.
func (s *Signer) sign(message []byte) authenticator {
	auth := s.auth
	auth.signatures = nil
	for i, key := range s.private {
		auth.signatures = append(auth.signatures, signature{s.indices[i], key.public.Type, key.sign(message)})
	}
	return auth
}
