package httpapi

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// errBadDigest: a digest header that cannot be read, or a sha-256 in it that is
// none.
var errBadDigest = errors.New("malformed digest")

// parseDigest gives the sha-256 that a Content-Digest or Repr-Digest header
// (RFC 9530) names: 32 bytes, or nil when it names none. Other algorithms are
// ignored, but the whole header must be a dictionary of RFC 9651. Of several
// lines and several values of one algorithm the last counts. Errors wrap
// errBadDigest.
func parseDigest(h http.Header, name string) ([]byte, error) {
	values := h.Values(name)
	if len(values) == 0 {
		return nil, nil
	}
	p := structuredParser{strings.Join(values, ",")}
	members, ok := p.dictionary()
	if !ok {
		return nil, fmt.Errorf("%w: %s is not a dictionary, such as sha-256=:BASE64: is one", errBadDigest, name)
	}
	value, ok := members["sha-256"]
	if !ok {
		return nil, nil
	}
	if len(value) != sha256.Size {
		return nil, fmt.Errorf("%w: the sha-256 in %s must be %d bytes in base64 between colons", errBadDigest, name, sha256.Size)
	}
	return value, nil
}

// formatDigest writes a sha-256 as the value of a digest header.
func formatDigest(sum []byte) string {
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum) + ":"
}

// structuredParser reads structured field values (RFC 9651, section 4.2) off
// the front of s. Of values it gives the bytes of a byte sequence; those of
// other types are only checked, and given as nil. Its methods return false when
// the grammar is violated; then s is of no more use.
type structuredParser struct{ s string }

// dictionary reads all of s as a dictionary; of equal keys the last counts.
func (p *structuredParser) dictionary() (map[string][]byte, bool) {
	members := map[string][]byte{}
	p.skip(" ")
	for p.s != "" {
		key, ok := p.key()
		if !ok {
			return nil, false
		}
		var value []byte
		if p.take('=') {
			value, ok = p.itemOrList()
		} else {
			ok = p.parameters() // a key alone is the boolean true
		}
		if !ok {
			return nil, false
		}
		members[key] = value
		p.skip(" \t")
		if p.s == "" {
			break
		}
		if !p.take(',') {
			return nil, false
		}
		p.skip(" \t")
		if p.s == "" { // a comma must be followed by a member
			return nil, false
		}
	}
	return members, true
}

func (p *structuredParser) itemOrList() ([]byte, bool) {
	if !p.take('(') {
		return p.item()
	}
	for {
		p.skip(" ")
		if p.take(')') {
			return nil, p.parameters()
		}
		if _, ok := p.item(); !ok {
			return nil, false
		}
		if next := p.peek(); next != ' ' && next != ')' {
			return nil, false
		}
	}
}

func (p *structuredParser) item() ([]byte, bool) {
	value, ok := p.bareItem()
	return value, ok && p.parameters()
}

func (p *structuredParser) parameters() bool {
	for p.take(';') {
		p.skip(" ")
		if _, ok := p.key(); !ok {
			return false
		}
		if p.take('=') {
			if _, ok := p.bareItem(); !ok {
				return false
			}
		}
	}
	return true
}

func (p *structuredParser) key() (string, bool) {
	if c := p.peek(); c != '*' && !isLower(c) {
		return "", false
	}
	return p.run(func(c byte) bool {
		return isLower(c) || isDigit(c) || strings.IndexByte("_-.*", c) >= 0
	}), true
}

func (p *structuredParser) bareItem() ([]byte, bool) {
	switch c := p.peek(); {
	case c == ':':
		return p.byteSequence()
	case c == '"':
		return nil, p.quoted()
	case c == '?':
		return nil, p.take('?') && (p.take('0') || p.take('1'))
	case c == '@':
		p.take('@')
		decimal, ok := p.number()
		return nil, ok && !decimal
	case c == '%':
		return nil, p.displayString()
	case c == '-' || isDigit(c):
		_, ok := p.number()
		return nil, ok
	case c == '*' || isLower(c|0x20):
		p.run(isTokenChar)
		return nil, true
	}
	return nil, false
}

// byteSequence reads base64 between colons; padding may be left out.
func (p *structuredParser) byteSequence() ([]byte, bool) {
	text, rest, ok := strings.Cut(p.s[1:], ":")
	if !ok || strings.ContainsAny(text, "\r\n") { // which the decoder would skip
		return nil, false
	}
	p.s = rest
	decoded, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	return decoded, err == nil
}

// number reads an integer of up to 15 digits, or a decimal of up to 12 digits,
// a point and up to 3 digits.
func (p *structuredParser) number() (decimal, ok bool) {
	p.take('-')
	whole := len(p.run(isDigit))
	if whole == 0 || !p.take('.') {
		return false, whole >= 1 && whole <= 15
	}
	fraction := len(p.run(isDigit))
	return true, whole <= 12 && fraction >= 1 && fraction <= 3
}

// quoted reads a string of printable ASCII in which only quotes and
// backslashes are, and must be, escaped.
func (p *structuredParser) quoted() bool {
	p.take('"')
	for p.s != "" {
		c := p.s[0]
		p.s = p.s[1:]
		switch {
		case c == '"':
			return true
		case c == '\\':
			if !p.take('"') && !p.take('\\') {
				return false
			}
		case c < ' ' || c > '~':
			return false
		}
	}
	return false
}

// displayString reads %"...", in which bytes above ASCII are %xx in lower-case
// hex. That they make up UTF-8 is not checked: nothing here shows one.
func (p *structuredParser) displayString() bool {
	p.take('%')
	if !p.take('"') {
		return false
	}
	for p.s != "" {
		c := p.s[0]
		p.s = p.s[1:]
		switch {
		case c == '"':
			return true
		case c == '%':
			if len(p.s) < 2 || !isLowerHex(p.s[0]) || !isLowerHex(p.s[1]) {
				return false
			}
			p.s = p.s[2:]
		case c < ' ' || c > '~':
			return false
		}
	}
	return false
}

// peek gives the next character, 0 at the end.
func (p *structuredParser) peek() byte {
	if p.s == "" {
		return 0
	}
	return p.s[0]
}

// take consumes c if it comes next.
func (p *structuredParser) take(c byte) bool {
	if p.s == "" || p.s[0] != c {
		return false
	}
	p.s = p.s[1:]
	return true
}

// skip consumes all of these characters that come next.
func (p *structuredParser) skip(chars string) { p.s = strings.TrimLeft(p.s, chars) }

// run consumes and gives the longest run of characters of a class.
func (p *structuredParser) run(class func(byte) bool) string {
	n := 0
	for n < len(p.s) && class(p.s[n]) {
		n++
	}
	text := p.s[:n]
	p.s = p.s[n:]
	return text
}

func isLower(c byte) bool    { return c >= 'a' && c <= 'z' }
func isDigit(c byte) bool    { return c >= '0' && c <= '9' }
func isLowerHex(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'f' }

// isTokenChar reports whether c may follow the first character of a token.
func isTokenChar(c byte) bool {
	return isLower(c|0x20) && c < 0x80 || isDigit(c) || strings.IndexByte("!#$%&'*+-.^_`|~:/", c) >= 0
}
