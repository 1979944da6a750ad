package headers

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxDelta is the greatest number of seconds in a directive (RFC 9111, section 1.2.2).
const maxDelta = 1 << 31

// plain are the other directives that are sent, from RFC 9111 and RFC 8246.
var plain = []string{"immutable", "must-revalidate", "must-understand", "no-cache", "no-store", "no-transform", "private", "proxy-revalidate", "public"}

// directive is a directive of Cache-Control.
type directive struct {
	text    string // as it is sent
	name    string // in lower case
	seconds int64  // argument of a directive in timed
}

// timed are the directives with a number of seconds as their argument.
var timed = []string{"max-age", "s-maxage", "stale-while-revalidate", "stale-if-error"}

// parseCacheControl parses a list of directives (RFC 9111, section 5.2). A directive's number of
// seconds must be in digits, and the directive must occur once, because caches interpret anything
// else differently.
func parseCacheControl(value string) ([]directive, error) {
	var list []directive
	for rest := value; ; {
		rest = strings.TrimLeft(rest, " \t,")
		if rest == "" {
			return list, nil
		}
		length := directiveLength(rest)
		d := directive{text: rest[:length]}
		rest = strings.TrimLeft(rest[length:], " \t")
		if length == 0 || rest != "" && rest[0] != ',' {
			return nil, fmt.Errorf("%w: Cache-Control must be a list of directives, such as public, max-age=3600", ErrMalformedMetadata)
		}
		name, argument, _ := strings.Cut(d.text, "=")
		d.name = strings.ToLower(name)
		if slices.Contains(timed, d.name) {
			var ok bool
			if d.seconds, ok = deltaSeconds(argument); !ok || slices.ContainsFunc(list, func(e directive) bool { return e.name == d.name }) {
				return nil, fmt.Errorf("%w: %s in Cache-Control must occur once, with a number of seconds", ErrMalformedMetadata, d.name)
			}
		}
		list = append(list, d)
	}
}

// directiveLength returns how long the directive is with which a text begins: a token, which may be
// followed by "=" and a token or a quoted string. It returns 0 if there is none.
func directiveLength(s string) int {
	name := tokenLength(s)
	if name == 0 || name == len(s) || s[name] != '=' {
		return name
	}
	argument := s[name+1:]
	length := tokenLength(argument)
	if length == 0 {
		length = quotedLength(argument)
	}
	if length == 0 {
		return 0
	}
	return name + 1 + length
}

func tokenLength(s string) int {
	n := 0
	for n < len(s) && isTokenByte(s[n]) {
		n++
	}
	return n
}

// quotedLength returns how long the quoted string is with which a text begins, all in printable
// characters, or 0.
func quotedLength(s string) int {
	if s == "" || s[0] != '"' {
		return 0
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return 0
}

// deltaSeconds parses a number of seconds; a larger number than maxDelta counts as maxDelta.
func deltaSeconds(s string) (int64, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil { // too large
		return maxDelta, true
	}
	return min(n, maxDelta), true
}

// SentCacheControl returns the Cache-Control that is sent for a stored value: its known directives,
// with arguments that are numbers of seconds or names of headers. Some caches, such as nginx, look
// for "max-age=" anywhere in the value, so it must be at the end of no other directive's name and
// in no quoted string. The result is empty if no directive is known, and "no-cache" if the value is
// not valid.
func SentCacheControl(value string) string {
	list, err := parseCacheControl(value)
	if err != nil {
		return "no-cache"
	}
	return textOf(known(list))
}

// known returns the directives that are sent, with the text that is sent.
func known(list []directive) []directive {
	var sent []directive
	for _, d := range list {
		switch {
		case slices.Contains(timed, d.name):
		case slices.Contains(plain, d.name):
			if name, argument, _ := strings.Cut(d.text, "="); strings.Contains(argument, "=") {
				d.text = name // no header name has this character; no-cache and private may have a list of them
			}
		default:
			continue
		}
		sent = append(sent, d)
	}
	return sent
}

func textOf(list []directive) string {
	texts := make([]string, len(list))
	for i := range list {
		texts[i] = list[i].text
	}
	return strings.Join(texts, ", ")
}

// LimitCacheControl returns a valid Cache-Control with which no cache keeps a response beyond its
// remaining life: max-age and s-maxage are at most the remaining life in seconds, and
// stale-while-revalidate and stale-if-error at most the part of it that these leave. A value from
// which a cache would have to guess gets the max-age that RFC 9111, section 4.2.2, suggests: a
// tenth of age, which is the time since the last modification. It has only directives that
// SentCacheControl returns.
func LimitCacheControl(value string, remaining, age time.Duration) string {
	list, err := parseCacheControl(value)
	if err != nil {
		return "no-cache"
	}
	list = known(list)
	life := max(0, int64(remaining/time.Second))
	fresh, explicit := int64(0), false
	for i := range list {
		switch d := &list[i]; d.name {
		case "max-age", "s-maxage":
			d.limit(life)
			fresh = max(fresh, d.seconds)
			explicit = explicit || d.name == "max-age"
		case "no-store", "no-cache":
			explicit = explicit || len(d.text) == len(d.name) // with an argument it is about single headers
		}
	}
	if !explicit {
		list = append(list, directive{name: "max-age"})
		guess := &list[len(list)-1]
		guess.seconds = max(0, int64(age/(10*time.Second)))
		guess.limit(life)
		guess.text = "max-age=" + strconv.FormatInt(guess.seconds, 10)
		fresh = max(fresh, guess.seconds)
	}
	for i := range list {
		if name := list[i].name; name == "stale-while-revalidate" || name == "stale-if-error" {
			list[i].limit(life - fresh)
		}
	}
	return textOf(list)
}

// limit reduces the argument to at most n seconds.
func (d *directive) limit(n int64) {
	if d.seconds > n {
		d.seconds = n
		d.text = d.name + "=" + strconv.FormatInt(n, 10)
	}
}
