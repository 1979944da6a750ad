package headers

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// ErrMalformedDigest reports a digest header that is not a dictionary, or that has a sha-256 which
// is not a SHA-256.
var ErrMalformedDigest = errors.New("malformed digest")

// ParseDigest returns the SHA-256 in a Content-Digest or Repr-Digest header (RFC 9530), or nil if
// it contains none. Other algorithms are ignored, but the whole header must be a dictionary of
// RFC 9651. Of several lines, and of several values of one algorithm, the last one counts. Errors
// wrap ErrMalformedDigest.
func ParseDigest(h http.Header, name string) ([]byte, error) {
	values := h.Values(name)
	if len(values) == 0 {
		return nil, nil
	}
	digest, found, ok := dictionaryMember(strings.Join(values, ","), "sha-256")
	if !ok {
		return nil, fmt.Errorf("%w: %s must be a dictionary, as sha-256=:BASE64: is", ErrMalformedDigest, name)
	}
	if !found {
		return nil, nil
	}
	sum, ok := byteSequence(digest)
	if !ok || len(sum) != sha256.Size {
		return nil, fmt.Errorf("%w: the sha-256 in %s must be %d bytes in base64 between colons", ErrMalformedDigest, name, sha256.Size)
	}
	return sum, nil
}

// FormatDigest returns a SHA-256 as a digest header's value.
func FormatDigest(sum []byte) string {
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum) + ":"
}

// The tokens of structured fields (RFC 9651, section 3). A token that ends too early, such as the
// first 15 digits in a longer number, is followed by something that the grammar forbids.
var (
	keyToken  = regexp.MustCompile(`^[a-z*][a-z0-9_.*-]*`)
	itemToken = regexp.MustCompile(`^(?:` + strings.Join([]string{
		`-?[0-9]{1,12}\.[0-9]{1,3}`,                        // decimal
		`@?-?[0-9]{1,15}`,                                  // integer or date
		`"(?:[ !#-\[\]-~]|\\["\\])*"`,                      // string
		`%"(?:[ !#$&-~]|%[0-9a-f]{2})*"`,                   // display string; that it is UTF-8 is not checked
		`[A-Za-z*][A-Za-z0-9!#$%&'*+.^_|~:/` + "`" + `-]*`, // token
		`:(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2,3})?=*:`, // byte sequence; padding may be missing
		`\?[01]`, // boolean
	}, "|") + `)`)
)

// byteSequence decodes an item that is a byte sequence.
func byteSequence(item string) ([]byte, bool) {
	text, ok := strings.CutPrefix(item, ":")
	if !ok {
		return nil, false
	}
	decoded, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "=:"))
	return decoded, err == nil
}

// dictionaryMember returns a key's last value in a dictionary (RFC 9651, section 4.2.2): an item's
// text without its parameters, or "" for an inner list and for a key alone. ok is false if text is
// not a dictionary.
func dictionaryMember(text, key string) (value string, found, ok bool) {
	p := structuredParser{strings.TrimLeft(text, " ")}
	for p.rest != "" {
		k, v, ok := p.member()
		if !ok {
			return "", false, false
		}
		if k == key {
			value, found = v, true
		}
		p.skip(" \t")
		if p.rest == "" {
			break
		}
		if !p.take(",") {
			return "", false, false
		}
		p.skip(" \t")
		if p.rest == "" { // a comma must be followed by a member
			return "", false, false
		}
	}
	return value, found, true
}

// structuredParser reads structured fields from the front of rest. Its methods return false if
// the grammar is violated; the parser must not be used after that.
type structuredParser struct{ rest string }

func (p *structuredParser) member() (key, value string, ok bool) {
	if key, ok = p.token(keyToken); !ok {
		return "", "", false
	}
	switch {
	case !p.take("="): // the boolean true
	case p.take("("):
		ok = p.innerList()
	default:
		value, ok = p.token(itemToken)
	}
	return key, value, ok && p.parameters()
}

// innerList reads a list's items, up to and including its closing parenthesis.
func (p *structuredParser) innerList() bool {
	for {
		p.skip(" ")
		if p.take(")") {
			return true
		}
		if _, ok := p.token(itemToken); !ok || !p.parameters() {
			return false
		}
		if !strings.HasPrefix(p.rest, " ") && !strings.HasPrefix(p.rest, ")") {
			return false
		}
	}
}

func (p *structuredParser) parameters() bool {
	for p.take(";") {
		p.skip(" ")
		if _, ok := p.token(keyToken); !ok {
			return false
		}
		if p.take("=") {
			if _, ok := p.token(itemToken); !ok {
				return false
			}
		}
	}
	return true
}

// token consumes the text that a pattern matches, which must not be empty.
func (p *structuredParser) token(pattern *regexp.Regexp) (string, bool) {
	text := pattern.FindString(p.rest)
	p.rest = p.rest[len(text):]
	return text, text != ""
}

// take consumes text if the rest begins with it.
func (p *structuredParser) take(text string) (ok bool) {
	p.rest, ok = strings.CutPrefix(p.rest, text)
	return ok
}

// skip consumes all leading characters in a set.
func (p *structuredParser) skip(chars string) { p.rest = strings.TrimLeft(p.rest, chars) }
