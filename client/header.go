package client

import (
	"fmt"
	"net/http"
	"strings"
)

// checkHeader returns ErrInvalid if a header field cannot be sent (RFC 9110, section 5.5): net/http
// would refuse it like a network failure.
func checkHeader(h http.Header) error {
	for name, values := range h {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !isToken(r) }) {
			return fmt.Errorf("%w: %q is not a header's name", ErrInvalid, name)
		}
		for _, value := range values {
			if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				return fmt.Errorf("%w: the value of %s has a line break or another control character", ErrInvalid, name)
			}
		}
	}
	return nil
}

// isToken reports whether a header's name may have the character (RFC 9110, section 5.6.2).
func isToken(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}
