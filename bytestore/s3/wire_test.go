package s3_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"sluice/bytestore/s3"
	"sluice/test/fault"
	"sluice/test/testenv"
)

// wire is a transport between a store and the network. It records requests and can be made to fail
// them.
type wire struct {
	next http.RoundTripper

	mu   sync.Mutex
	sent []string // "PUT", "GET bytes=0-9"
	// on handles a request. If it is nil, requests are sent. It may be set between calls.
	on func(r *http.Request, next http.RoundTripper) (*http.Response, error)
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.sent = append(w.sent, strings.TrimSpace(r.Method+" "+r.Header.Get("Range")))
	on := w.on
	w.mu.Unlock()
	if on == nil {
		return w.next.RoundTrip(r)
	}
	return on(r, w.next)
}

// handle sets the handler of further requests and clears the record.
func (w *wire) handle(on func(*http.Request, http.RoundTripper) (*http.Response, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.on, w.sent = on, nil
}

// requests returns the requests since handle.
func (w *wire) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

// handler handles a request that is to fail.
type handler = func(r *http.Request, next http.RoundTripper) (*http.Response, error)

// times applies a fault to a method's first n requests.
func times(n int, method string, f handler) handler {
	var mu sync.Mutex
	return func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		mu.Lock()
		hit := n > 0 && r.Method == method
		if hit {
			n--
		}
		mu.Unlock()
		if hit {
			return f(r, next)
		}
		return next.RoundTrip(r)
	}
}

// always is a number of times that no test reaches.
const always = 1 << 30

// respondsWith returns the fault that a server returns an error.
func respondsWith(status int, code string) handler {
	return func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		body := fmt.Sprintf("<Error><Code>%s</Code><Message>as the test wants</Message></Error>", code)
		return &http.Response{
			Status: http.StatusText(status), StatusCode: status, Request: r,
			Header: http.Header{"Content-Type": {"application/xml"}}, Body: io.NopCloser(strings.NewReader(body)),
		}, nil
	}
}

// cutResponse breaks the response off after n bytes.
func cutResponse(n int64) handler {
	return func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err == nil {
			resp.Body = fault.Torn(resp.Body, n)
		}
		return resp, err
	}
}

// damage flips a bit in the request body.
func damage(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	if r.Body == nil {
		return next.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	body[len(body)/2] ^= 1
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	return next.RoundTrip(r)
}

// onWire returns a store that sends its requests over a wire, and a second store over the same
// objects that does not.
func onWire(t *testing.T, opt s3.Options) (s, aside *s3.Store, w *wire) {
	t.Helper()
	server := testenv.S3(t, testenv.S3Options{})
	c := freshPrefix(t, server)
	w = &wire{}
	opt.Transport = func(next http.RoundTripper) http.RoundTripper {
		w.next = next
		return w
	}
	s, aside = mustOpen(t, c, opt), mustOpen(t, c, s3.Options{})
	w.handle(nil)
	return s, aside, w
}
