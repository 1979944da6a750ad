package access

import (
	"crypto/rand"
	"encoding/base32"
	"strings"
)

// A credential is "sluice_", the key's id, "_" and its secret. Secret scanners find leaked
// credentials by the prefix. Id and secret are random, of 80 and 280 bits.
const (
	prefix       = "sluice_"
	idLength     = 16
	secretLength = 56
)

// alphabet is base32's (RFC 4648) in lower case: a character holds five random bits.
const alphabet = "abcdefghijklmnopqrstuvwxyz234567"

var encoding = base32.NewEncoding(alphabet).WithPadding(base32.NoPadding)

// s3SecretLength is as long as Amazon's, because some clients check it: 200 bits.
const s3SecretLength = 40

func newID() string       { return randomText(idLength) }
func newSecret() string   { return randomText(secretLength) }
func newS3Secret() string { return randomText(s3SecretLength) }

// randomText returns n random characters; n must be a multiple of 8.
func randomText(n int) string {
	random := make([]byte, encoding.DecodedLen(n))
	rand.Read(random) // never returns an error
	return encoding.EncodeToString(random)
}

func formatCredential(id, secret string) string { return prefix + id + "_" + secret }

// parseCredential is the inverse of formatCredential. It accepts no other spelling.
func parseCredential(text string) (id, secret string, ok bool) {
	rest, ok := strings.CutPrefix(text, prefix)
	if !ok || len(rest) != idLength+1+secretLength || rest[idLength] != '_' {
		return "", "", false
	}
	id, secret = rest[:idLength], rest[idLength+1:]
	return id, secret, isRandomText(id) && isRandomText(secret)
}

func isRandomText(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}
