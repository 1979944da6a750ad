package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strings"
	"testing"

	"sluice/checksum"
	"sluice/wire"
)

// bad fails the test unless err is nil or a short ErrBadResponse. It reports whether it is nil.
func bad(t *testing.T, err error) bool {
	t.Helper()
	if err == nil {
		return true
	}
	var e *ResponseError
	if !errors.As(err, &e) || !errors.Is(err, ErrBadResponse) || e.Member == "" || len(e.Error()) > 16*maxShown+maxSentence {
		t.Errorf("error %.500v", err)
	}
	return false
}

func FuzzParseRange(f *testing.F) {
	for _, s := range []string{"bytes 0-4/5", "bytes 0-4/9223372036854775807", "bytes 0-4/*", "bytes */5", "bytes -1-4/5", "bytes 4-0/5", "bytes 0-5/5", "bytes 18446744073709551615-0/1", "0-4/5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, field string) {
		begin, end, size, err := parseRange(field)
		if bad(t, err) && (begin < 0 || begin >= end || end > size || size > maxBlobSize) {
			t.Errorf("%q is %d to %d of %d", field, begin, end, size)
		}
	})
}

// FuzzParseBlob parses a response's header section.
func FuzzParseBlob(f *testing.F) {
	f.Add("ETag: "+checksum.ETag(5, 1)+"\r\nLast-Modified: Mon, 23 Nov 2026 17:45:07 GMT\r\nBlob-Expires: 2030-01-01T00:00:00Z\r\nBlob-Meta-A: b", int64(5))
	f.Add("ETag: "+checksum.ETag(5, 1), int64(math.MaxInt64))
	f.Add("ETag: \"\x01\"\r\nRepr-Digest: sha-256=:AAAA:", int64(-1))
	f.Add("Last-Modified: now\r\nBlob-Expires: never\r\nBlob-Meta-A: "+strings.Repeat("a", wire.MaxBlobMeta), int64(0))
	f.Fuzz(func(t *testing.T, text string, size int64) {
		h := http.Header{}
		for line := range strings.SplitSeq(text, "\r\n") {
			if name, value, ok := strings.Cut(line, ":"); ok {
				h.Add(name, strings.TrimSpace(value))
			}
		}
		b, err := parseBlob("a", h, size)
		if !bad(t, err) {
			return
		}
		if b.Size != size || size < 0 || size > maxBlobSize || len(b.ETag) > maxETag || strings.ContainsFunc(b.ETag, func(r rune) bool { return r < ' ' || r > '~' }) ||
			len(b.SHA256) != 0 && len(b.SHA256) != 32 || len(b.Metadata) > wire.MaxBlobMetaHeaders || len(b.CacheControl) > wire.MaxCacheControl {
			t.Errorf("%+v", b)
		}
		if at, _, known := checksum.ParseETag(b.ETag); known && at != b.Size {
			t.Errorf("%d bytes with the ETag %s", b.Size, b.ETag)
		}
		if h.Get(wire.HeaderBlobExpires) != "" && b.Expires.IsZero() && !strings.HasPrefix(h.Get(wire.HeaderBlobExpires), "0001-01-01") {
			t.Errorf("%q is no expiry", h.Get(wire.HeaderBlobExpires))
		}
	})
}

// FuzzCheckJSON compares the counts with package json's.
func FuzzCheckJSON(f *testing.F) {
	f.Add([]byte(`{"blobs":[{"name":"a\"[{,","size":1}],"prefixes":["b"],"next":"\\"}`))
	f.Add([]byte(strings.Repeat("[", maxJSONDepth+1)))
	f.Add([]byte("[" + strings.Repeat("{},", maxJSONValues) + "{}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if checkJSON(text) != nil || !json.Valid(text) {
			return
		}
		depth, values := 0, 0
		for d := json.NewDecoder(bytes.NewReader(text)); ; {
			token, err := d.Token()
			if err != nil {
				break
			}
			switch token {
			case json.Delim('{'), json.Delim('['):
				depth++
			case json.Delim('}'), json.Delim(']'):
				depth--
				continue
			}
			if values++; depth > maxJSONDepth {
				t.Fatalf("%d levels", depth)
			}
		}
		if values > 2*maxJSONValues+2 { // names of members are tokens, too
			t.Errorf("%d values", values)
		}
	})
}

// FuzzListing checks that entries that are accepted from two pages are in order and were requested.
func FuzzListing(f *testing.F) {
	etag := strings.ReplaceAll(checksum.ETag(1, 1), `"`, `\"`)
	f.Add([]byte(`{"blobs":[{"name":"p/a","size":1,"etag":"`+etag+`"}],"prefixes":["p/b/"],"next":"p/b/"}`), []byte(`{"blobs":[{"name":"p/c","size":0}]}`), "p/", "/", "")
	f.Add([]byte(`{"blobs":[{"name":"a","size":9223372036854775807}]}`), []byte(`{"next":"a"}`), "", "", "")
	f.Add([]byte(`{"blobs":[{"name":"b"},{"name":"a"}],"next":"0"}`), []byte(`{"blobs":[{"name":"b"}],"next":"b"}`), "", "", "b")
	f.Fuzz(func(t *testing.T, first, second []byte, prefix, delimiter, after string) {
		l := &listing{options: ListOptions{Prefix: prefix, Delimiter: delimiter, After: after}, last: after}
		last := after
		for _, text := range [][]byte{first, second} {
			var page wire.BlobPage
			if checkJSON(text) != nil || json.Unmarshal(text, &page) != nil || !bad(t, l.check(len(page.Blobs)+len(page.Prefixes), mergePage(&page), page.Next)) {
				return
			}
			for e := range mergePage(&page) {
				name := e.Name + e.Prefix
				if name <= last || !strings.HasPrefix(name, prefix) || e.Size < 0 || e.Size > maxBlobSize || strings.ContainsAny(name, "\x00\x1b\n") {
					t.Errorf("%q after %q, %d bytes", name, last, e.Size)
				}
				last = name
			}
			if page.Next != "" && page.Next < last {
				t.Errorf("next %q after %q", page.Next, last)
			}
			if page.Next == "" {
				return
			}
			last = page.Next
		}
	})
}
