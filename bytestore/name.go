package bytestore

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"
)

// Name identifies an object: 3 to 64 characters of [a-z0-9-]. The names that NewName returns are
// evenly distributed over their first two characters and contain the time at which they were made.
type Name string

// nameLen is the length of NewName's names: "hh-tttttttttttt-" and 32 hex digits of randomness.
const nameLen = 2 + 1 + 12 + 1 + 32

// NewName returns a new name: two random hex digits, the time in milliseconds since the Unix epoch,
// and 128 random bits. It cannot be guessed and is never returned twice.
func NewName(now time.Time) Name {
	var r [17]byte
	rand.Read(r[:])
	return Name(fmt.Sprintf("%02x-%012x-%x", r[0], now.UnixMilli(), r[1:]))
}

// Valid reports whether the name has the form that every Store accepts.
func (n Name) Valid() bool {
	if len(n) < 3 || len(n) > 64 {
		return false
	}
	for i := range len(n) {
		c := n[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// Created returns the time at which NewName made the name, in milliseconds. It returns false if the
// name does not have the form that NewName produces.
func (n Name) Created() (time.Time, bool) {
	if len(n) != nameLen || n[2] != '-' || n[15] != '-' {
		return time.Time{}, false
	}
	if !isHex(n[:2]) || !isHex(n[3:15]) || !isHex(n[16:]) {
		return time.Time{}, false
	}
	var b [6]byte
	if _, err := hex.Decode(b[:], []byte(n[3:15])); err != nil {
		return time.Time{}, false
	}
	var ms int64
	for _, x := range b {
		ms = ms<<8 | int64(x)
	}
	return time.UnixMilli(ms), true
}

func isHex(s Name) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
