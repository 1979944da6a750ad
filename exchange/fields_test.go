package exchange

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"testing"
)

// TestFields checks that fields have the values that were set and added last, however they are
// passed to net/http, and so are those that are set after that.
func TestFields(t *testing.T) {
	changes := map[string]func(*Fields){
		"nothing":   func(*Fields) {},
		"a field":   func(f *Fields) { f.Set("Etag", "1") },
		"set twice": func(f *Fields) { f.Set("Etag", "1"); f.Set("Etag", "2") },
		"added":     func(f *Fields) { f.Add("Vary", "A"); f.Set("Etag", "1"); f.Add("Vary", "B"); f.Add("Vary", "C") },
		"set after added": func(f *Fields) {
			f.Add("Vary", "A")
			f.Add("Vary", "B")
			f.Set("Vary", "C")
		},
		"removed": func(f *Fields) {
			f.Set("Etag", "1")
			f.Add("Vary", "A")
			f.Add("Vary", "B")
			f.Remove("Vary")
			f.Remove("Date")
		},
		"framing": func(f *Fields) { f.Set("Content-Length", "4"); f.Set("Etag", "1"); f.Set("Connection", "close") },
		"many": func(f *Fields) {
			for i := range 100 {
				f.Set("X-"+strconv.Itoa(i), strconv.Itoa(i))
			}
			f.Add("X-3", "more")
		},
	}
	for first, begin := range changes {
		for second, then := range changes {
			plain := Fields{header: http.Header{}}
			begin(&plain)
			then(&plain)
			want := plain.header

			inserting := Fields{header: http.Header{}, inserts: true}
			begin(&inserting)
			then(&inserting)
			for name := range inserting.header {
				if inserting.inserts && !isFraming(name) {
					t.Errorf("%s is not inserted", name)
				}
			}
			if got := inserting.All(); !maps.EqualFunc(got, want, slices.Equal) {
				t.Errorf("%s, then %s: inserted %v, want %v", first, second, got, want)
			}
		}
	}
	two := Fields{header: http.Header{}}
	changes["added"](&two)
	changes["set after added"](&two)
	if want := (http.Header{"Etag": {"1"}, "Vary": {"C"}}); !maps.EqualFunc(two.header, want, slices.Equal) {
		t.Errorf("the header is %v, want %v", two.header, want)
	}
}

// TestNoFieldIsInsertedThatEndsTheLine checks that a value with a line break is left to net/http.
func TestNoFieldIsInsertedThatEndsTheLine(t *testing.T) {
	for _, value := range []string{"a\r\nInjected: b", "a\nb", "a\rb"} {
		for _, put := range []func(*Fields){
			func(f *Fields) { f.Set("Cache-Control", value) },
			func(f *Fields) { f.Add("Cache-Control", value) },
		} {
			f := Fields{header: http.Header{}, inserts: true}
			if put(&f); len(f.text) > 0 || f.header.Get("Cache-Control") != value {
				t.Errorf("%q was inserted: %q", value, f.text)
			}
		}
	}
}
