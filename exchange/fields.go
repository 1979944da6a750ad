package exchange

import (
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// Fields are the header fields of one response. Names must be in canonical form.
//
// net/http clones, sorts and checks the fields that it is given. If the connection can insert
// fields, net/http gets only those that it frames the response by, and the connection the rest, as
// text.
type Fields struct {
	header  http.Header // of net/http
	inserts bool        // the connection inserts text; false if it cannot, or must not any more
	text    []byte      // fields as they are sent
	inText  uint64      // has the bits of their names

	used   int // of memory.values
	memory struct {
		values [16]string
		text   [640]byte // of text, if that suffices
	}
}

// NewFields returns a response's fields from its header.
func NewFields(header http.Header) Fields { return Fields{header: header} }

// Set makes value the field's only one.
func (f *Fields) Set(name, value string) {
	if f.inserts && !isFraming(name) {
		if f.inText&bitOf(name) == 0 && !hasLineBreak(value) {
			f.insert(name, value)
			return
		}
		f.All()
	}
	f.put(name, value)
}

// Add adds a value to the field.
func (f *Fields) Add(name, value string) {
	if f.inserts && !isFraming(name) {
		if !hasLineBreak(value) {
			f.insert(name, value)
			return
		}
		f.All()
	}
	if values := f.header[name]; values != nil {
		f.header[name] = append(values, value)
	} else {
		f.put(name, value)
	}
}

// put puts a single value into the header of net/http.
func (f *Fields) put(name, value string) {
	if f.used == len(f.memory.values) {
		f.header[name] = []string{value}
		return
	}
	f.memory.values[f.used] = value
	f.used++
	f.header[name] = f.memory.values[f.used-1 : f.used : f.used] // append copies it
}

func (f *Fields) insert(name, value string) {
	if f.text == nil {
		f.text = f.memory.text[:0]
	}
	f.inText |= bitOf(name)
	f.text = append(f.text, name...)
	f.text = append(f.text, ": "...)
	f.text = append(f.text, value...)
	f.text = append(f.text, "\r\n"...)
}

// bitOf returns a bit for a name, which other names may share.
func bitOf(name string) uint64 {
	return 1 << ((len(name) + 2*int(name[0]) + 4*int(name[len(name)-1])) % 64)
}

// isFraming reports whether net/http frames a response by the field, or adds it if it is missing.
func isFraming(name string) bool {
	switch name {
	case "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Date", "Trailer", "Transfer-Encoding":
		return true
	default:
		return false
	}
}

// hasLineBreak reports whether a value would end its line. net/http replaces such characters.
func hasLineBreak(value string) bool {
	return strings.IndexByte(value, '\n') >= 0 || strings.IndexByte(value, '\r') >= 0
}

// All passes all fields to net/http, including those that are set later. It returns the header.
func (f *Fields) All() http.Header {
	f.inserts = false
	for line := range strings.Lines(string(f.text)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\r\n"), ": ")
		f.header[name] = append(f.header[name], value)
	}
	f.text = nil
	return f.header
}

// Has reports whether the field has a value.
func (f *Fields) Has(name string) bool { return f.All()[name] != nil }

// Remove removes the field.
func (f *Fields) Remove(name string) { delete(f.All(), name) }

// dates caches the texts of times in whole seconds, which many responses share: the present, and
// when the blobs that are read often were stored.
var dates [256]atomic.Pointer[date]

type date struct {
	unix int64
	text string
}

// Date returns a time in whole seconds as an HTTP-date.
func Date(t time.Time) string {
	unix := t.Unix()
	cached := &dates[uint64(unix)%uint64(len(dates))]
	if d := cached.Load(); d != nil && d.unix == unix {
		return d.text
	}
	d := &date{unix, t.UTC().Format(http.TimeFormat)}
	cached.Store(d)
	return d.text
}
