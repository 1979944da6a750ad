package client_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"sluice/checksum"
	"sluice/client"
	"sluice/test/testenv"
)

// TestReaderRequests checks which requests a read makes of responses that are cut or wrong.
// Invariant 147.
func TestReaderRequests(t *testing.T) {
	etag := checksum.ETag(5, checksum.Update(0, []byte("hello")))
	// part responds with a range. Its body may be shorter.
	part := func(status int, contentRange, body string, length int64, etag string) step {
		return func(r *http.Request) (*http.Response, error) {
			h := http.Header{"Etag": {etag}}
			if contentRange != "" {
				h.Set("Content-Range", contentRange)
			}
			var reader io.Reader = strings.NewReader(body)
			if int64(len(body)) < length {
				reader = io.MultiReader(reader, iotest.ErrReader(errCut))
			}
			return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: h, Body: io.NopCloser(reader), ContentLength: length, Request: r}, nil
		}
	}
	whole := part(200, "", "hello", 5, etag)
	for name, test := range map[string]struct {
		steps  []step
		ranges []string
		got    string
		want   error
	}{
		"whole": {steps: []step{whole}, ranges: []string{""}, got: "hello"},
		"cut":   {steps: []step{part(200, "", "he", 5, etag), part(206, "bytes 2-4/5", "llo", 3, etag)}, ranges: []string{"", "bytes=2-4"}, got: "hello"},
		"cut twice without progress": {
			steps:  []step{part(200, "", "he", 5, etag), part(206, "bytes 2-4/5", "", 3, etag), part(206, "bytes 2-4/5", "llo", 3, etag)},
			ranges: []string{"", "bytes=2-4", "bytes=2-4"}, got: "hello",
		},
		"cut without progress": {
			steps:  []step{part(200, "", "he", 5, etag), part(206, "bytes 2-4/5", "", 3, etag), part(206, "bytes 2-4/5", "", 3, etag)},
			ranges: []string{"", "bytes=2-4", "bytes=2-4"}, got: "he", want: errCut,
		},
		"cut after each byte": {
			steps: []step{part(200, "", "h", 5, etag), part(206, "bytes 1-4/5", "e", 4, etag), part(206, "bytes 2-4/5", "l", 3, etag),
				part(206, "bytes 3-4/5", "l", 2, etag), part(206, "bytes 4-4/5", "o", 1, etag)},
			ranges: []string{"", "bytes=1-4", "bytes=2-4", "bytes=3-4", "bytes=4-4"}, got: "hello",
		},
		"unavailable, then continued": {
			steps:  []step{part(200, "", "he", 5, etag), problem(503, "overloaded", `,"retryable":true`), part(206, "bytes 2-4/5", "llo", 3, etag)},
			ranges: []string{"", "bytes=2-4", "bytes=2-4"}, got: "hello",
		},
		"other bytes":          {steps: []step{part(200, "", "hellO", 5, etag)}, ranges: []string{""}, got: "hellO", want: client.ErrCorrupt},
		"range ignored":        {steps: []step{part(200, "", "he", 5, etag), whole}, ranges: []string{"", "bytes=2-4"}, got: "he", want: errAny},
		"another range":        {steps: []step{part(200, "", "he", 5, etag), part(206, "bytes 1-3/5", "ell", 3, etag)}, ranges: []string{"", "bytes=2-4"}, got: "he", want: errAny},
		"another length":       {steps: []step{part(200, "", "he", 5, etag), part(206, "bytes 2-4/5", "ll", 2, etag)}, ranges: []string{"", "bytes=2-4"}, got: "he", want: errAny},
		"condition ignored":    {steps: []step{part(200, "", "he", 5, etag), part(206, "bytes 2-4/5", "llo", 3, `"5-1"`)}, ranges: []string{"", "bytes=2-4"}, got: "he", want: client.ErrChanged},
		"replaced":             {steps: []step{part(200, "", "he", 5, etag), problem(412, "precondition_failed", "")}, ranges: []string{"", "bytes=2-4"}, got: "he", want: client.ErrChanged},
		"deleted":              {steps: []step{part(200, "", "he", 5, etag), problem(404, "blob_not_found", "")}, ranges: []string{"", "bytes=2-4"}, got: "he", want: client.ErrChanged},
		"unknown length":       {steps: []step{part(200, "", "hello", -1, etag)}, ranges: []string{""}, want: errAny},
		"unexpected status":    {steps: []step{part(204, "", "", 0, etag)}, ranges: []string{""}, want: errAny},
		"ETag of another form": {steps: []step{part(200, "", "hello", 5, `"x"`)}, ranges: []string{""}, got: "hello"},
	} {
		runInBubble(t, name, func(t *testing.T) {
			s, c := newScript(t, 3, test.steps...)
			begin := time.Now()
			var got []byte
			r, err := c.Get(t.Context(), "team", "a", client.GetOptions{})
			if err == nil {
				got, err = io.ReadAll(r)
				testenv.Check(t, r.Close())
			}
			if string(got) != test.got || !expected(err, test.want) {
				t.Errorf("read %q, %v; want %q, %v", got, err, test.got, test.want)
			}
			if errors.Is(err, io.EOF) {
				t.Errorf("%v is io.EOF", err)
			}
			for i, sent := range s.sent {
				if i < len(test.ranges) && sent.Header.Get("Range") != test.ranges[i] {
					t.Errorf("request %d is for %q, want %q", i, sent.Header.Get("Range"), test.ranges[i])
				}
				if i > 0 && sent.Header.Get("If-Match") != etag {
					t.Errorf("request %d has the condition %q", i, sent.Header.Get("If-Match"))
				}
			}
			if pause := time.Since(begin); pause > time.Minute {
				t.Errorf("pauses of %v", pause)
			}
		})
	}
}
