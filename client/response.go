package client

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"sluice/checksum"
	"sluice/wire"
)

// ErrBadResponse is returned if a response is not one that a service sends, as a broken or hostile
// server or a proxy may send it: see ResponseError.
var ErrBadResponse = errors.New("the response is not one that a service sends")

// ResponseError describes the fault in a response of status 2xx. It is ErrBadResponse, and also
// ErrOutcomeUnknown if the request may have taken effect. The request is not repeated.
//
// Responses are bounded: a blob has at most 5 TiB, an upload 100,000 parts of at most 5 GiB, a page
// as many entries as were requested, in order and after those before, a listing's page 32 MiB, any
// other JSON 1 MiB, and the header section 256 KiB.
type ResponseError struct {
	Member  string // in the JSON, or the header's name
	Problem string // with at most 64 bytes from the value
}

// Error returns the member and its problem.
func (e *ResponseError) Error() string {
	return fmt.Sprintf("%v: %s %s", ErrBadResponse, e.Member, e.Problem)
}

// Is reports whether target is ErrBadResponse.
func (e *ResponseError) Is(target error) bool { return target == ErrBadResponse }

func invalid(member, format string, args ...any) error {
	return &ResponseError{member, fmt.Sprintf(format, args...)}
}

// The service's limits; see package blob.
const (
	maxBlobSize = 5 << 40
	maxPartSize = 5 << 30
	maxParts    = 100_000
)

// Bounds of responses. Those of metadata are in package wire.
const (
	maxPageJSON     = 32 << 20  // bytes in a page with blobs: 1,000 of the longest names with their metadata have less
	maxJSON         = 1 << 20   // bytes of any other JSON
	maxJSONValues   = 1 << 16   // members and elements: 1,000 blobs with 32 custom headers each have 50,000
	maxJSONDepth    = 16        // objects and lists within each other
	maxHeaderBytes  = 256 << 10 // of a response
	maxETag         = 255       // bytes
	maxID           = 255       // bytes in the id of a session, a channel, an upload or a request
	maxWord         = 255       // bytes in an address, a state, a version and the like
	maxSentence     = 2 << 10   // bytes in an error's text
	maxNameLength   = 1_024     // UTF-16 code units in a name
	maxShown        = 64        // bytes that an error shows from a value
	maxFutureYear   = 9_999
	maxRetrySeconds = 1 << 31
)

// shown returns a response's value as an error shows it.
func shown(s string) string {
	if len(s) > maxShown {
		return fmt.Sprintf("%q and %d bytes more", s[:maxShown], len(s)-maxShown)
	}
	return strconv.Quote(s)
}

// checkJSON returns an error if decoding text could take much more memory than text has.
func checkJSON(text []byte) error {
	values, depth, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			values++
			depth++
		case c == '}' || c == ']':
			depth--
		case c == ',':
			values++
		}
		if values > maxJSONValues {
			return invalid("body", "has more than %d values", maxJSONValues)
		}
		if depth > maxJSONDepth {
			return invalid("body", "has more than %d levels", maxJSONDepth)
		}
	}
	return nil
}

// checkName returns an error if a response's member cannot be a blob's name.
func checkName(member, name string) error {
	if fault := nameFault(name); fault != "" {
		return invalid(member, "%s: %s", fault, shown(name))
	}
	return nil
}

// nameFault returns why a text cannot be a blob's name, such as "is empty", or "".
func nameFault(name string) string {
	units := 0
	for _, r := range name {
		if r < 0x20 || r == 0x7f {
			return fmt.Sprintf("has the control character U+%04X", r)
		}
		units++
		if r > 0xffff {
			units++
		}
		if units > maxNameLength {
			return fmt.Sprintf("is longer than %d characters", maxNameLength)
		}
	}
	switch {
	case units == 0:
		return "is empty"
	case !utf8.ValidString(name):
		return "is not valid UTF-8"
	}
	return ""
}

// checkWord returns an error if a short text is too long or has other than visible ASCII
// characters.
func checkWord(member, s string, longest int) error {
	if len(s) > longest {
		return invalid(member, "has %d bytes, more than %d", len(s), longest)
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return invalid(member, "has other than visible ASCII characters: %s", shown(s))
		}
	}
	return nil
}

// checkVersion returns an error if s is neither empty nor a version's id.
func checkVersion(s string) error {
	if s != "" && (len(s) != 32 || strings.Trim(s, "0123456789abcdef") != "") {
		return invalid(wire.HeaderBlobVersion, "is not 32 hexadecimal digits: %s", shown(s))
	}
	return nil
}

// checkID returns an error if s cannot be an id, which becomes a part in a path.
func checkID(member, s string) error {
	if s == "" || s == "." || s == ".." {
		return invalid(member, "is not an id: %s", shown(s))
	}
	return checkWord(member, s, maxID)
}

func checkSize(member string, n, most int64) error {
	if n < 0 || n > most {
		return invalid(member, "is %d, and must be 0 to %d", n, most)
	}
	return nil
}

// checkETag returns an error if etag is malformed, or belongs to a content of another size.
func checkETag(etag string, size int64) error {
	if err := checkWord("ETag", etag, maxETag); err != nil {
		return err
	}
	if of, _, known := checksum.ParseETag(etag); known && of != size {
		return invalid("ETag", "belongs to %d bytes, and the blob has %d", of, size)
	}
	return nil
}

func checkLength(member, s string, longest int) error {
	if len(s) > longest {
		return invalid(member, "has %d bytes, more than %d", len(s), longest)
	}
	return nil
}

// parseTime returns the time in a header that may be missing.
func parseTime(h http.Header, name string, parse func(string) (time.Time, error)) (time.Time, error) {
	text := h.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := parse(text)
	if err != nil || at.Year() > maxFutureYear {
		return time.Time{}, invalid(name, "is not a time: %s", shown(text))
	}
	return at, nil
}

// parseCount returns the number in a header.
func parseCount(h http.Header, name string, most int64) (int64, error) {
	n, err := strconv.ParseUint(h.Get(name), 10, 63)
	if err != nil || int64(n) > most {
		return 0, invalid(name, "is not a number of at most %d: %s", most, shown(h.Get(name)))
	}
	return int64(n), nil
}
