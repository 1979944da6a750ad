package conformance

import (
	"crypto/rand"
	"fmt"
	"io"
)

// randomAddress returns an address that begins with a zero digit and has letters.
func randomAddress() string { return fmt.Sprintf("0x00ab%x", randomBytes(30)) }

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = io.ReadFull(rand.Reader, b) // never fails
	return b
}
