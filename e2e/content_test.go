package e2e

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"testing"
)

// content makes n bytes that depend on the seed.
func content(seed uint64, n int) []byte {
	b := make([]byte, n)
	if _, err := io.ReadFull(stream(seed), b); err != nil {
		panic(err) // the generator has no end
	}
	return b
}

// stream is an endless run of bytes that depends on the seed.
func stream(seed uint64) io.Reader {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	return rand.NewChaCha8(key)
}

// digest is the SHA-256 of b in hex.
func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// seed is the seed of a randomised test. It is printed, so that a failure can
// be had again with -seed.
func seed(t testing.TB) uint64 {
	t.Helper()
	s := *seedFlag
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("again with: -args -seed=%d", s)
	return s
}
