package headers

import (
	"errors"
	"fmt"
	"strings"
)

// ErrMalformedMetadata reports a header that describes a blob and is malformed, repeated or too
// long.
var ErrMalformedMetadata = errors.New("malformed metadata")

// ErrLargeMetadata is the ErrMalformedMetadata that is returned if there is too much of it.
var ErrLargeMetadata = fmt.Errorf("%w: too much", ErrMalformedMetadata)

func isNotPrintable(r rune) bool { return r > '~' || isControl(r) }

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// isToken reports whether a text is a token (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		if !isTokenByte(s[i]) {
			return false
		}
	}
	return s != ""
}

func isTokenByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
