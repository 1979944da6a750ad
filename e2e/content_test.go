package e2e

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"testing"
)

// content returns n bytes that depend on the seed.
func content(seed uint64, n int) []byte {
	b := make([]byte, n)
	if _, err := io.ReadFull(stream(seed), b); err != nil {
		panic(err) // the generator never ends
	}
	return b
}

// stream returns an endless stream of bytes that depends on the seed.
func stream(seed uint64) io.Reader {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	return rand.NewChaCha8(key)
}

// digest returns the SHA-256 of b in hex.
func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// seed returns a randomized test's seed and logs it, so that -seed can repeat a failure.
func seed(t testing.TB) uint64 {
	t.Helper()
	s := *seedFlag
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("repeat with: -args -seed=%d", s)
	return s
}
