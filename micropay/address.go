package micropay

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// ErrAddress means that the text is not an address. It arrives wrapped.
var ErrAddress = errors.New("micropay: not an address")

// Address is an account, object or module address.
type Address [32]byte

// ParseAddress reads an address: "0x" and 1 to 64 hex digits, or without the
// prefix exactly one hex digit or 60 to 64 of them. Case does not matter and
// leading zeros may be left out. Anything else is ErrAddress.
func ParseAddress(s string) (Address, error) {
	digits, prefixed := strings.CutPrefix(s, "0x")
	n := len(digits)
	if n < 1 || n > 64 || !prefixed && n != 1 && n < 60 {
		return Address{}, fmt.Errorf("%w: %d digits", ErrAddress, n)
	}
	var a Address
	padded := strings.Repeat("0", 64-n) + digits
	if _, err := hex.Decode(a[:], []byte(padded)); err != nil {
		return Address{}, fmt.Errorf("%w: %w", ErrAddress, err)
	}
	return a, nil
}

// String gives the one canonical spelling: "0x0" to "0xf" for the sixteen
// special addresses, "0x" and 64 lower-case hex digits for all others.
func (a Address) String() string {
	if a == (Address{31: a[31]}) && a[31] < 16 {
		return fmt.Sprintf("0x%x", a[31])
	}
	return "0x" + hex.EncodeToString(a[:])
}
