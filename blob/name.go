package blob

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"sluice/micropay"
)

// ErrInvalidName is wrapped by every *NameError: an account or a blob name is not valid.
var ErrInvalidName = errors.New("blob: invalid name")

// NameError is the reason why an account or a blob name is not valid. It wraps ErrInvalidName.
type NameError struct {
	What   string // "account" or "blob name"
	Reason string // "is empty", "must not end in \"/\"" and the like
}

// Error returns a sentence that can be shown to users.
func (e *NameError) Error() string { return "the " + e.What + " " + e.Reason }

// Unwrap returns ErrInvalidName.
func (e *NameError) Unwrap() error { return ErrInvalidName }

// ParseAccount returns an account's canonical form, in which it is stored and shown. An account is
// an address or a plain name.
//
// An address is what micropay.ParseAddress accepts, and has the canonical form that
// micropay.Address returns. A plain name matches [a-z0-9][a-z0-9._-]{0,63} and is returned
// unchanged; it cannot begin with "0x", so no name looks like an address. For anything else
// ParseAccount returns a *NameError. It is idempotent.
func ParseAccount(s string) (string, error) {
	if address, err := micropay.ParseAddress(s); err == nil {
		return address.String(), nil
	}
	switch {
	case s == "":
		return "", accountError("is empty")
	case strings.HasPrefix(s, "0x"):
		return "", accountError(`must have 1 to 64 hexadecimal digits after "0x"`)
	case len(s) > 64:
		return "", accountError("is longer than 64 characters")
	case strings.ContainsFunc(s, func(r rune) bool { return 'A' <= r && r <= 'Z' }):
		return "", accountError("must be in lower case, unless it is an address")
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

// CheckName returns a *NameError if a blob name is not valid. A valid name consists of 1 to 1024
// UTF-16 code units of valid UTF-8 without control characters (U+0000 to U+001F and U+007F) and
// does not end in "/". Apart from that it is opaque: empty segments, dot segments and "%" have no
// special meaning.
func CheckName(s string) error {
	switch {
	case s == "":
		return nameError("is empty")
	case len(s) > 3*MaxNameLength: // no code unit needs more than three bytes
		return nameError(fmt.Sprintf("is longer than %d characters", MaxNameLength))
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
	if units > MaxNameLength {
		return nameError(fmt.Sprintf("is longer than %d characters", MaxNameLength))
	}
	return nil
}

func accountError(reason string) error { return &NameError{What: "account", Reason: reason} }
func nameError(reason string) error    { return &NameError{What: "blob name", Reason: reason} }

func isLowerAlnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
}
