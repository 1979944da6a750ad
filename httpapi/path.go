package httpapi

import (
	"net/url"
	"strings"
)

// escapedPath gives the path of a request as the client escaped it, so that an
// encoded slash can still be told from a plain one.
func escapedPath(u *url.URL) string {
	// EscapedPath would drop a RawPath that holds characters which ought to
	// have been escaped (raw UTF-8, quotes) and escape the decoded path anew;
	// by then "%2F" and "/" are the same.
	if u.RawPath != "" {
		return u.RawPath
	}
	return u.EscapedPath()
}

// unescape decodes every %XX of s once, and nothing else ("+" stays). The
// result may be any bytes at all. False when a "%" is not followed by two hex
// digits.
func unescape(s string) (string, bool) {
	if !strings.Contains(s, "%") {
		return s, true
	}
	decoded, err := url.PathUnescape(s)
	return decoded, err == nil
}
