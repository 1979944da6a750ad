package document

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// EncodingURL is the only encoding-type: keys are written as in a URL's query.
const EncodingURL = "url"

// Name is a key, or a text by which a listing selects keys. A character that XML 1.0 cannot hold is
// written as a reference to it: many parsers refuse that, but none reads another key. EncodingURL
// leaves no such character.
type Name string

// MarshalXML implements xml.Marshaler.
func (n Name) MarshalXML(e *xml.Encoder, start xml.StartElement) error {
	var out bytes.Buffer
	writeEscaped(&out, string(n))
	return e.EncodeElement(struct {
		Text string `xml:",innerxml"`
	}{out.String()}, start)
}

// writeEscaped writes a text as an element's content, with the references that encoding/xml uses.
func writeEscaped(out *bytes.Buffer, text string) {
	for text != "" {
		n := plainLength(text)
		out.WriteString(text[:n])
		if text = text[n:]; text == "" {
			return
		}
		r, size := utf8.DecodeRuneInString(text)
		text = text[size:]
		switch {
		case r == '<':
			out.WriteString("&lt;")
		case r == '>':
			out.WriteString("&gt;")
		case r == '&':
			out.WriteString("&amp;")
		case r == '"':
			out.WriteString("&#34;")
		case r == '\'':
			out.WriteString("&#39;")
		case r == '\t', r == '\n', r == '\r', !held(r):
			fmt.Fprintf(out, "&#x%X;", r)
		default:
			out.WriteRune(r)
		}
	}
}

// escapedLength returns at most how many bytes writeEscaped writes.
func escapedLength(text string) (n int) {
	for _, r := range text {
		switch {
		case r < utf8.RuneSelf && plain[r]:
			n++
		case r >= ' ' && r < utf8.RuneSelf && r != 0x7f:
			n += len("&#34;")
		case r >= utf8.RuneSelf && held(r):
			n += utf8.RuneLen(r)
		default:
			n += len("&#xFFFF;")
		}
	}
	return n
}

// plainLength returns how many bytes at a text's beginning need no reference.
func plainLength(text string) int {
	for i := range len(text) {
		if !plain[text[i]] {
			return i
		}
	}
	return len(text)
}

// plain are the bytes that are characters without a meaning in XML.
var plain = func() (set [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		set[c] = !strings.ContainsRune(`<>&"'`, c)
	}
	return set
}()

// held reports whether a document can have a character (XML 1.0, production 2).
func held(r rune) bool {
	return r == '\t' || r == '\n' || r == '\r' || r >= ' ' && r <= 0xd7ff || r >= 0xe000 && r <= 0xfffd || r >= 0x10000
}

// inURL returns a name for EncodingURL: letters, digits and -_.*/ as they are, and all other bytes
// as percent and two digits. Amazon S3 writes a space as a plus sign, which not all clients decode.
func inURL(name Name) Name {
	const digits = "0123456789ABCDEF"
	var out strings.Builder
	out.Grow(3 * len(name))
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-_.*/", c) >= 0:
			out.WriteByte(c)
		default:
			out.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return Name(out.String())
}

// encodeURL writes names for EncodingURL.
func encodeURL(names ...*Name) {
	for _, name := range names {
		*name = inURL(*name)
	}
}

// Time is written as S3 writes times: in UTC, and in whole seconds, so that it is the same time as
// in the header Last-Modified.
type Time struct{ time.Time }

// MarshalText implements encoding.TextMarshaler.
func (t Time) MarshalText() ([]byte, error) { return []byte(t.text()), nil }

func (t Time) text() string { return t.UTC().Truncate(time.Second).Format("2006-01-02T15:04:05.000Z") }
