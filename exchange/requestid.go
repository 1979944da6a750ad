package exchange

import "math/rand/v2"

// RequestID returns the id that a client has sent, if it is fit for a log, or a new one.
func RequestID(sent string) string {
	const limit = 128
	if sent == "" || len(sent) > limit {
		return newRequestID()
	}
	for i := range len(sent) {
		c := sent[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return newRequestID()
		}
	}
	return sent
}

// newRequestID returns a text in the form of crypto/rand.Text, and as improbable to repeat. It is
// no secret.
func newRequestID() string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	var id [26]byte
	for i := 0; i < len(id); {
		for bits, left := rand.Uint64(), 12; left > 0 && i < len(id); left-- {
			id[i] = alphabet[bits%32]
			bits /= 32
			i++
		}
	}
	return string(id[:])
}
