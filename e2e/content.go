package e2e

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"testing"
)

// Content returns n bytes that depend on the seed.
func Content(seed uint64, n int) []byte {
	b := make([]byte, n)
	if _, err := io.ReadFull(Stream(seed), b); err != nil {
		panic(err) // the generator never ends
	}
	return b
}

// Stream returns an endless stream of bytes that depends on the seed.
func Stream(seed uint64) io.Reader {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	return rand.NewChaCha8(key)
}

// Digest returns the SHA-256 of b in hex.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Seed returns a randomized test's seed and logs it, so that -seed can repeat a failure.
func Seed(t testing.TB) uint64 {
	t.Helper()
	s := *seedFlag
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("repeat with: -args -seed=%d", s)
	return s
}

// WrongDigest returns a header value: the digest of other bytes than any test sends.
func WrongDigest() string {
	sum := sha256.Sum256([]byte("something else"))
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}
