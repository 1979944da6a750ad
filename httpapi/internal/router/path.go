package router

import (
	"net/url"
	"strings"
)

// EscapedPath returns a request's path as the client escaped it, in which an encoded slash differs
// from a plain one.
func EscapedPath(u *url.URL) string {
	// URL.EscapedPath ignores a RawPath with characters that should have been escaped, such as raw
	// UTF-8 and quotes, and escapes the decoded path instead, in which "%2F" and "/" are equal.
	if u.RawPath != "" {
		return u.RawPath
	}
	return u.EscapedPath()
}

// unescape decodes every %XX of s once and leaves everything else, including "+". The result may
// contain any bytes. It returns false if a "%" is not followed by two hexadecimal digits.
func unescape(s string) (string, bool) {
	if !strings.Contains(s, "%") {
		return s, true
	}
	decoded, err := url.PathUnescape(s)
	return decoded, err == nil
}
