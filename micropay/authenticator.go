package micropay

import (
	"crypto/sha3"
	"fmt"
	"math/bits"
)

// Scheme is how a sender's address is derived from its keys, and how they sign. The values are as
// encoded.
type Scheme uint8

// The schemes that can be verified.
const (
	SchemeEd25519      Scheme = 0 // one Ed25519 key, the oldest form
	SchemeMultiEd25519 Scheme = 1 // some of up to 32 Ed25519 keys
	SchemeSingleKey    Scheme = 2 // one key of any type
	SchemeMultiKey     Scheme = 3 // some of up to 32 keys of any types
)

// String returns the scheme's name.
func (s Scheme) String() string {
	switch s {
	case SchemeEd25519:
		return "Ed25519"
	case SchemeMultiEd25519:
		return "MultiEd25519"
	case SchemeSingleKey:
		return "SingleKey"
	case SchemeMultiKey:
		return "MultiKey"
	default:
		return fmt.Sprintf("Scheme(%d)", uint8(s))
	}
}

// Numbers of variants in the encoding of authenticators and keys.
const (
	authenticatorKinds = 6 // the four schemes, none, account abstraction
	publicKeyKinds     = 5 // Ed25519, secp256k1, secp256r1, keyless, federated keyless
	signatureKinds     = 4 // Ed25519, secp256k1, WebAuthn, keyless
)

const (
	maxKeys    = 32
	bitmapSize = maxKeys / 8
)

// authenticator proves that an account signed a transaction. All schemes have the same form: keys,
// how many of them must sign, and signatures by some.
type authenticator struct {
	scheme     Scheme
	keys       []PublicKey
	required   int
	signatures []signature
}

// signature is made by the key with that index; kind is the type that its encoding states.
type signature struct {
	key   int
	kind  KeyType
	bytes []byte
}

func (r *reader) authenticator() authenticator {
	a := authenticator{required: 1}
	v := r.variant("authenticator", authenticatorKinds)
	a.scheme = Scheme(v)
	switch a.scheme {
	case SchemeEd25519:
		a.keys = []PublicKey{{KeyEd25519, string(r.sized("an Ed25519 key", ed25519KeySize))}}
		a.signatures = []signature{{bytes: r.sized("an Ed25519 signature", signatureSize)}}
	case SchemeMultiEd25519:
		r.multiEd25519(&a)
	case SchemeSingleKey:
		a.keys = []PublicKey{r.anyPublicKey()}
		a.signatures = []signature{r.anySignature()}
	case SchemeMultiKey:
		r.multiKey(&a)
	default:
		r.stop(refuse(ClassSigner, ReasonUnsupported, "authenticator variant %d cannot be verified", v))
	}
	return a
}

// multiEd25519 reads the keys and the threshold from one byte string, and the signatures and the
// bitmap from another.
func (r *reader) multiEd25519(a *authenticator) {
	keys := r.bytes()
	signatures := r.bytes()
	n := len(keys) / ed25519KeySize
	m := (len(signatures) - bitmapSize) / signatureSize
	if n > maxKeys || len(keys) != n*ed25519KeySize+1 || // m > n excludes 0 keys
		m < 1 || m > n || len(signatures) != m*signatureSize+bitmapSize {
		r.stop(refuse(ClassParse, ReasonAuthenticator, "%d bytes of keys, %d bytes of signatures", len(keys), len(signatures)))
		return
	}
	for i := range n {
		a.keys = append(a.keys, PublicKey{KeyEd25519, string(keys[i*ed25519KeySize:][:ed25519KeySize])})
	}
	a.required = r.threshold(keys[len(keys)-1], n)
	signers := r.bitmap(signatures[m*signatureSize:], n, m)
	for i, key := range signers {
		a.signatures = append(a.signatures, signature{key, KeyEd25519, signatures[i*signatureSize:][:signatureSize]})
	}
}

func (r *reader) multiKey(a *authenticator) {
	n := r.count("keys", maxKeys)
	for range n {
		a.keys = append(a.keys, r.anyPublicKey())
	}
	a.required = r.threshold(r.u8(), n)

	m := r.count("signatures", n)
	for range m {
		a.signatures = append(a.signatures, r.anySignature())
	}
	for i, key := range r.bitmap(r.sized("the bitmap", bitmapSize), n, m) {
		a.signatures[i].key = key
	}
}

// count reads a count, which must be from 1 to limit.
func (r *reader) count(label string, limit int) int {
	n := r.uleb()
	if n < 1 || n > limit {
		r.stop(refuse(ClassParse, ReasonAuthenticator, "%d %s, not 1 to %d", n, label, limit))
		return 0
	}
	return n
}

func (r *reader) threshold(required uint8, keys int) int {
	if required < 1 || int(required) > keys {
		r.stop(refuse(ClassParse, ReasonAuthenticator, "%d of %d keys must sign", required, keys))
	}
	return int(required)
}

// bitmap returns the indices of the keys that signed, in order. There must be one for each
// signature, and each must belong to a key.
func (r *reader) bitmap(b []byte, keys, signatures int) []int {
	if b == nil {
		return nil
	}
	var signers []int
	for i := range maxKeys {
		if b[i/8]&(0x80>>(i%8)) != 0 {
			signers = append(signers, i)
		}
	}
	if len(signers) != signatures || signatures > 0 && signers[signatures-1] >= keys {
		r.stop(refuse(ClassParse, ReasonAuthenticator, "the bitmap %x does not fit %d keys and %d signatures", b, keys, signatures))
		return nil
	}
	return signers
}

func (r *reader) anyPublicKey() PublicKey {
	t := r.keyType("public key", publicKeyKinds)
	return PublicKey{t, string(r.sized("a public key", t.size()))}
}

func (r *reader) anySignature() signature {
	t := r.keyType("signature", signatureKinds)
	return signature{kind: t, bytes: r.sized("a signature", signatureSize)}
}

func (r *reader) keyType(label string, known int) KeyType {
	v := r.variant(label, known)
	if v > int(KeySecp256k1) {
		r.stop(refuse(ClassSigner, ReasonUnsupported, "%s variant %d cannot be verified", label, v))
		return 0
	}
	return KeyType(v)
}

// append encodes the authenticator.
func (a *authenticator) append(b []byte) []byte {
	b = append(b, byte(a.scheme))
	switch a.scheme {
	case SchemeEd25519:
		b = appendBytes(b, string(a.publicKeys()))
		b = appendBytes(b, string(a.signatures[0].bytes))
	case SchemeMultiEd25519:
		b = appendBytes(b, string(a.publicKeys()))
		b = appendUleb(b, len(a.signatures)*signatureSize+bitmapSize)
		for _, s := range a.signatures {
			b = append(b, s.bytes...)
		}
		b = append(b, a.bitmap()...)
	case SchemeSingleKey:
		b = append(b, a.publicKeys()...)
		b = a.signatures[0].append(b)
	case SchemeMultiKey:
		b = append(b, a.publicKeys()...)
		b = appendUleb(b, len(a.signatures))
		for _, s := range a.signatures {
			b = s.append(b)
		}
		b = appendBytes(b, string(a.bitmap()))
	}
	return b
}

func (s signature) append(b []byte) []byte {
	return appendBytes(append(b, byte(s.kind)), string(s.bytes))
}

func (a *authenticator) bitmap() []byte {
	var set uint32
	for _, s := range a.signatures {
		set |= bits.Reverse32(1 << s.key)
	}
	return []byte{byte(set >> 24), byte(set >> 16), byte(set >> 8), byte(set)}
}

// publicKeys encodes the keys and the threshold in the form from which the address is derived.
func (a *authenticator) publicKeys() []byte {
	var b []byte
	if a.scheme == SchemeMultiKey {
		b = appendUleb(b, len(a.keys))
	}
	for _, k := range a.keys {
		if a.scheme == SchemeSingleKey || a.scheme == SchemeMultiKey {
			b = append(b, byte(k.Type))
			b = appendUleb(b, len(k.Bytes))
		}
		b = append(b, k.Bytes...)
	}
	if a.scheme == SchemeMultiEd25519 || a.scheme == SchemeMultiKey {
		b = append(b, byte(a.required))
	}
	return b
}

// address returns the address that an account with these keys has.
func (a *authenticator) address() Address {
	return sha3.Sum256(append(a.publicKeys(), byte(a.scheme)))
}
