package micropay

import "crypto/ed25519"

// KeyType is a key's type. The values are as encoded.
type KeyType uint8

// The types of keys that can be verified.
const (
	KeyEd25519   KeyType = 0
	KeySecp256k1 KeyType = 1
)

// Sizes in bytes.
const (
	ed25519KeySize   = ed25519.PublicKeySize
	secp256k1KeySize = 65 // uncompressed
	signatureSize    = 64 // of both types
)

func (t KeyType) size() int {
	if t == KeyEd25519 {
		return ed25519KeySize
	}
	return secp256k1KeySize
}

// PublicKey is a public key. It is comparable.
type PublicKey struct {
	Type KeyType
	// Bytes are the 32 bytes of RFC 8032 for Ed25519, and the 65 of SEC 1, uncompressed (04,
	// x, y), for secp256k1.
	Bytes string
}
