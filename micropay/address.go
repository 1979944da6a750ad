package micropay

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// ErrAddress means that a text is not an address. It is wrapped.
var ErrAddress = errors.New("micropay: not an address")

// Address is an account's, object's or module's address.
type Address [32]byte

// ParseAddress parses an address: "0x" and 1 to 64 hexadecimal digits, or without the prefix
// exactly one digit or 60 to 64 of them, in upper or lower case. Leading zeros may be omitted. It
// returns ErrAddress for anything else.
func ParseAddress(s string) (Address, error) {
	digits, prefixed := strings.CutPrefix(s, "0x")
	n := len(digits)
	if n < 1 || n > 64 || !prefixed && n != 1 && n < 60 {
		return Address{}, ErrAddress // as it is, since names of accounts are tried as addresses
	}
	var a Address
	padded := []byte("0000000000000000000000000000000000000000000000000000000000000000")
	copy(padded[64-n:], digits)
	if _, err := hex.Decode(a[:], padded); err != nil {
		return Address{}, fmt.Errorf("%w: %w", ErrAddress, err)
	}
	return a, nil
}

// String returns the canonical form: "0x0" to "0xf" for the sixteen special addresses, and "0x"
// with 64 lower-case hexadecimal digits for every other address.
func (a Address) String() string {
	if a == (Address{31: a[31]}) && a[31] < 16 {
		const all = "0x00x10x20x30x40x50x60x70x80x90xa0xb0xc0xd0xe0xf"
		return all[3*a[31] : 3*a[31]+3]
	}
	return "0x" + hex.EncodeToString(a[:])
}
