package bytestore

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"
)

// Key identifies an object: 3 to 64 characters of [a-z0-9-]. The keys that NewKey
// returns are evenly distributed over their first two characters and contain the
// time at which they were made.
type Key string

// keyLen is the length of a key made by NewKey: "hh-tttttttttttt-" and 32 hex
// digits of randomness.
const keyLen = 2 + 1 + 12 + 1 + 32

// NewKey returns a new key: two random hex digits, the time in milliseconds since
// the Unix epoch, and 128 random bits. It cannot be guessed and is never returned
// twice.
func NewKey(now time.Time) Key {
	var r [17]byte
	rand.Read(r[:])
	return Key(fmt.Sprintf("%02x-%012x-%x", r[0], now.UnixMilli(), r[1:]))
}

// Valid reports whether the key has the form that every Store accepts.
func (k Key) Valid() bool {
	if len(k) < 3 || len(k) > 64 {
		return false
	}
	for i := range len(k) {
		c := k[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// Created returns the time at which NewKey made the key, in milliseconds. It
// returns false if the key does not have the form that NewKey produces.
func (k Key) Created() (time.Time, bool) {
	if len(k) != keyLen || k[2] != '-' || k[15] != '-' {
		return time.Time{}, false
	}
	if !isHex(k[:2]) || !isHex(k[3:15]) || !isHex(k[16:]) {
		return time.Time{}, false
	}
	var b [6]byte
	if _, err := hex.Decode(b[:], []byte(k[3:15])); err != nil {
		return time.Time{}, false
	}
	var ms int64
	for _, x := range b {
		ms = ms<<8 | int64(x)
	}
	return time.UnixMilli(ms), true
}

func isHex(s Key) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
