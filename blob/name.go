package blob

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ErrInvalidName is what every *NameError wraps: an account or a blob name that
// no blob can have.
var ErrInvalidName = errors.New("blob: invalid name")

// maxNameUnits is the greatest length of a blob name, in UTF-16 code units: the
// unit in which the public client counts.
const maxNameUnits = 1024

// addressDigits is the number of hex digits of an address written in full.
const addressDigits = 64

// NameError tells what is wrong with an account or a blob name. It wraps
// ErrInvalidName.
type NameError struct {
	What   string // "account" or "blob name"
	Reason string // "is empty", "must not end in \"/\"" and the like
}

// Error gives a sentence that can be shown to the caller as it is.
func (e *NameError) Error() string { return "the " + e.What + " " + e.Reason }

// Unwrap gives ErrInvalidName.
func (e *NameError) Unwrap() error { return ErrInvalidName }

// ParseAccount gives the one canonical spelling of an account, under which it
// is stored and shown.
//
// An account is an address or a plain name. An address is "0x" and 1 to 64 hex
// digits, or without the prefix exactly one hex digit or 60 to 64 of them, the
// digits in any case and leading zeros optional; it is returned as "0x" and 64
// lower-case digits, and the sixteen addresses below 0x10 as "0x0" to "0xf".
// Whatever is no address is a plain name, [a-z0-9][a-z0-9._-]{0,63}, and
// returned unchanged; it cannot begin with "0x", so no name ever looks like an
// address. Everything else is a *NameError. ParseAccount(ParseAccount(s)) is
// ParseAccount(s).
func ParseAccount(s string) (string, error) {
	if digits, ok := strings.CutPrefix(s, "0x"); ok {
		if len(digits) < 1 || len(digits) > addressDigits || !isHex(digits) {
			return "", accountError(`must have 1 to 64 hexadecimal digits after "0x"`)
		}
		return canonicalAddress(digits), nil
	}
	if (len(s) == 1 || len(s) >= 60 && len(s) <= addressDigits) && isHex(s) {
		return canonicalAddress(s), nil
	}
	switch {
	case s == "":
		return "", accountError("is empty")
	case len(s) > 64:
		return "", accountError("is longer than 64 characters")
	case !isLowerAlnum(s[0]):
		return "", accountError("must be an address or begin with one of a-z and 0-9")
	}
	for i := 1; i < len(s); i++ {
		if !isLowerAlnum(s[i]) && s[i] != '.' && s[i] != '_' && s[i] != '-' {
			return "", accountError(`must be an address or consist of a-z, 0-9, ".", "_" and "-" only`)
		}
	}
	return s, nil
}

// CheckName reports what is wrong with a blob name, nil when nothing is. A name
// is 1 to 1024 UTF-16 code units of valid UTF-8 without control characters
// (U+0000 to U+001F and U+007F), and does not end in "/". Apart from that it is
// opaque: empty and dot segments, "%" and any Unicode are as good as letters.
// Errors are *NameError.
func CheckName(s string) error {
	switch {
	case s == "":
		return nameError("is empty")
	case len(s) > 3*maxNameUnits: // no code unit needs more than three bytes
		return nameError(fmt.Sprintf("is longer than %d characters", maxNameUnits))
	case !utf8.ValidString(s):
		return nameError("is not valid UTF-8")
	case strings.HasSuffix(s, "/"):
		return nameError(`must not end in "/"`)
	}
	units := 0
	for _, r := range s {
		if r < 0x20 || r == 0x7f {
			return nameError(fmt.Sprintf("holds the control character U+%04X", r))
		}
		units++
		if r > 0xffff {
			units++
		}
	}
	if units > maxNameUnits {
		return nameError(fmt.Sprintf("is longer than %d characters", maxNameUnits))
	}
	return nil
}

func accountError(reason string) error { return &NameError{What: "account", Reason: reason} }
func nameError(reason string) error    { return &NameError{What: "blob name", Reason: reason} }

// canonicalAddress spells the address with these 1 to 64 hex digits.
func canonicalAddress(digits string) string {
	digits = strings.TrimLeft(strings.ToLower(digits), "0")
	switch len(digits) {
	case 0:
		return "0x0"
	case 1:
		return "0x" + digits
	}
	return "0x" + strings.Repeat("0", addressDigits-len(digits)) + digits
}

func isHex(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return false
		}
	}
	return s != ""
}

func isLowerAlnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
}
