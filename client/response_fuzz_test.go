package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/blob"
	"sluice/checksum"
	"sluice/test/testenv"
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

func FuzzParseRetryAfter(f *testing.F) {
	for _, s := range []string{"1", "2147483647", "99999999999999999999999", "-1", "Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT", "soon"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d := parseRetryAfter(s); d < 0 || d > maxRetryAfter {
			t.Errorf("%q is %v", s, d)
		}
	})
}

// FuzzNewError checks that an error is short, whatever a server sends.
func FuzzNewError(f *testing.F) {
	f.Add(503, "application/problem+json", []byte(`{"code":"overloaded","detail":"A sentence.","requestId":"R1","retryable":true}`), "")
	f.Add(409, "application/problem+json", []byte(`{"code":"`+strings.Repeat("x", 300)+`","detail":"\u001b[2J"}`), "")
	f.Add(302, "text/html", []byte("<html>"), "http://elsewhere/"+strings.Repeat("a", 5000))
	f.Add(400, "application/problem+json", []byte(`{"code":"a","detail":"`+strings.Repeat("x", 60_000)+`","uploadId":"`+strings.Repeat("x", 1000)+`"}`), "")
	f.Add(400, "application/problem+json", []byte(strings.Repeat(`{"a":`, 9000)), "")
	f.Fuzz(func(t *testing.T, status int, contentType string, body []byte, location string) {
		h := http.Header{"Content-Type": {contentType}, "Location": {location}, "X-Request-Id": {location}}
		e := newError(&http.Response{StatusCode: status, Header: h, Body: io.NopCloser(bytes.NewReader(body))}, "localhost")
		if n := len(e.Error()); n > 3*maxSentence {
			t.Errorf("the error has %d bytes", n)
		}
		if max(len(e.ChannelID), len(e.SessionID), len(e.UploadID), len(e.Reason), len(e.Required), len(e.RequestID)) > 3+maxWord || len(e.StoredMicropayment) > maxErrorBody {
			t.Errorf("%+v", e)
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

// FuzzCheckName checks that every name of the service is accepted, and no control character.
func FuzzCheckName(f *testing.F) {
	for _, s := range []string{"a/b", "", "a\x1b[2J", "../x", strings.Repeat("é", 1024), strings.Repeat("😀", 513), "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if strings.HasSuffix(name, "/") {
			return // a prefix may end in a slash, and a name may not
		}
		want := blob.CheckName(name)
		if err := checkName("name", name); bad(t, err) != (want == nil) {
			t.Errorf("%q: %v, and the service has %v", name, err, want)
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
			if checkJSON(text) != nil || json.Unmarshal(text, &page) != nil || !bad(t, l.check(&page)) {
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

// FuzzUploadListing checks that entries that are accepted from two pages are in order.
func FuzzUploadListing(f *testing.F) {
	f.Add([]byte(`{"uploads":[{"uploadId":"A","name":"a","created":"2026-01-01T00:00:00Z"}],"next":"A"}`), []byte(`{"uploads":[{"uploadId":"A","name":"a","created":"2026-01-01T00:00:00Z"}],"next":"A"}`))
	f.Add([]byte(`{"uploads":[{"uploadId":"A","name":"a","partSize":-1,"bytes":-1}],"next":"B"}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var l uploadListing
		var at time.Time
		for _, text := range [][]byte{first, second} {
			var page wire.UploadPage
			if checkJSON(text) != nil || json.Unmarshal(text, &page) != nil || !bad(t, l.check(&page)) {
				return
			}
			for u := range uploadsOf(&page) {
				if u.Created.Before(at) || u.ID == "" || u.Bytes < 0 || u.PartSize < 0 || u.PartSize > maxPartSize {
					t.Errorf("%+v", u)
				}
				at = u.Created
			}
			if page.Next != "" && len(page.Uploads) == 0 {
				t.Error("a page without entries has a next")
			}
		}
	})
}

// FuzzParts checks that the parts on two pages belong to one upload.
func FuzzParts(f *testing.F) {
	f.Add([]byte(`{"state":"open","parts":[{"index":0,"size":5},{"index":2,"size":5}],"next":2}`), []byte(`{"state":"open","parts":[{"index":2,"size":5}],"next":2}`))
	f.Add([]byte(`{"state":"open","parts":[{"index":-1,"size":-5}],"next":-2}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		after := -1
		for _, text := range [][]byte{first, second} {
			var page wire.UploadStatus
			if checkJSON(text) != nil || json.Unmarshal(text, &page) != nil || !bad(t, checkParts(&page, after)) {
				return
			}
			for _, part := range page.Parts {
				if part.Index <= after || part.Index >= maxParts || part.Size < 0 || part.Size > maxPartSize {
					t.Errorf("%+v after %d", part, after)
				}
				after = part.Index
			}
			if page.Next == nil {
				return
			}
			testenv.Equal(t, *page.Next, after, "next")
		}
	})
}

// FuzzPayments checks sessions, channels and descriptions of services.
func FuzzPayments(f *testing.F) {
	f.Add([]byte(`{"sessionId":"S","chunksetsLeft":-1,"chunksetsTotal":-9223372036854775808}`))
	f.Add([]byte(`{"channelId":"C","paymentChannelId":"1","deposit":"-1","accepted":"99999999999999999999","credit":"0","settled":"0","sequenceNumber":"0","state":"\u001b[2J"}`))
	f.Add([]byte(`{"channelId":"C","paymentChannelId":"1","deposit":"1","accepted":"0","credit":"0","settled":"0","sequenceNumber":"0","state":"open","sessions":[{"sessionId":"../x"}]}`))
	f.Add([]byte(`{"version":"1","limits":{"maxPartSize":-1},"rates":{"key":{"a":-1}},"payment":{"chunksetPrice":"-1"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if checkJSON(text) != nil {
			return
		}
		var s wire.Session
		if json.Unmarshal(text, &s) == nil && bad(t, checkSession(&s)) && (s.ChunksetsLeft < 0 || s.ChunksetsTotal < 0 || s.SessionID == "" || s.SessionID == "..") {
			t.Errorf("%+v", s)
		}
		var c wire.Channel
		if json.Unmarshal(text, &c) == nil && bad(t, checkChannel(&c)) {
			ch, err := parseChannel(&c)
			if bad(t, err) && max(ch.Deposit, ch.Accepted, ch.Credit, ch.Settled, ch.Sequence) > math.MaxInt64 {
				t.Errorf("%+v", ch)
			}
			for _, s := range ch.Sessions {
				if _, err := sessionPath(s.ID); err != nil || s.ChunksetsLeft < 0 {
					t.Errorf("%+v", s)
				}
			}
		}
		var i wire.Info
		if json.Unmarshal(text, &i) == nil && bad(t, checkInfo(&i)) && (i.Limits.MaxPartSize < 0 || i.ChunksetSize < 0 || len(i.Version) > maxWord) {
			t.Errorf("%+v", i)
		}
	})
}
