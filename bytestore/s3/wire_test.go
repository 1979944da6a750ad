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

// fault handles a request that is to fail.
type fault = func(r *http.Request, next http.RoundTripper) (*http.Response, error)

// times applies a fault to a method's first n requests.
func times(n int, method string, f fault) fault {
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
func respondsWith(status int, code string) fault {
	return func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		body := fmt.Sprintf("<Error><Code>%s</Code><Message>as the test wants</Message></Error>", code)
		return &http.Response{
			Status: http.StatusText(status), StatusCode: status, Request: r,
			Header: http.Header{"Content-Type": {"application/xml"}}, Body: io.NopCloser(strings.NewReader(body)),
		}, nil
	}
}

// refused is the fault that a connection is refused.
func refused(*http.Request, http.RoundTripper) (*http.Response, error) {
	return nil, fmt.Errorf("the test refuses the connection")
}

func loseResponse(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	resp, err := next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if err := resp.Body.Close(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("the test cuts the connection after %d", resp.StatusCode)
}

// cutResponse breaks the response off after n bytes.
func cutResponse(n int64) fault {
	return func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err == nil {
			cut := io.MultiReader(io.LimitReader(resp.Body, n), errReader{})
			resp.Body = struct {
				io.Reader
				io.Closer
			}{cut, resp.Body}
		}
		return resp, err
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

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
