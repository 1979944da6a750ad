package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// request is a request that can be sent several times.
type request struct {
	name   string // for errors and the log: it has no ids and no names
	method string
	path   string // below the base URL, escaped
	query  url.Values
	header http.Header

	// body returns the body from its start, once for each attempt. If it is nil, there is no body.
	// A body that is an io.Closer is closed. length is its length in bytes, or -1 if it is unknown.
	body   func() (io.Reader, error)
	length int64

	safety safety

	// conditional means that the request has a condition that its own effect makes false: a 412
	// after an attempt with an unknown outcome is not a refusal.
	conditional bool

	// waits means that the service waits before it responds.
	waits bool

	// replaceable means that nobody can see the stored bytes before another request, so that this
	// one is sent again if the response's ETag shows that other bytes were received.
	replaceable bool

	// ownEffect reports whether a refusal may be due to an earlier attempt with an unknown outcome.
	// It is nil for most requests.
	ownEffect func(error) bool

	// receive reads a 2xx response's body within the attempt, so that a body that was cut
	// is a failed attempt. If it is nil, do returns the response with its body.
	receive func(io.Reader) error

	maxJSON int          // bounds the response's JSON, in bytes; 0: maxJSON
	check   func() error // checks the response's decoded JSON; it may be nil
}

// failed returns an error for a 2xx response.
func (r *request) failed(err error) error {
	err = fmt.Errorf("client: %s: %w", r.name, err)
	if r.safety != readOnly {
		err = unknown(err)
	}
	return err
}

// refusedByOwnEffect reports whether err, after an attempt with an unknown outcome, may be due to
// the effect of that attempt.
func (r *request) refusedByOwnEffect(err error) bool {
	return r.conditional && errors.Is(err, ErrPreconditionFailed) || r.ownEffect != nil && r.ownEffect(err)
}

// safety is the condition under which a request may be sent again.
type safety int

const (
	idempotent safety = iota // whatever happened
	readOnly                 // whatever happened; it has no effect that could be unknown
	once                     // only if it certainly had no effect
)

// newRequest returns a request without query and header.
func newRequest(name, method, path string, s safety) *request {
	return &request{name: name, method: method, path: path, query: url.Values{}, header: http.Header{}, safety: s}
}

// idPath returns a thing's path below a collection, or ErrInvalid if the id cannot be one.
func idPath(collection, id, thing string) (string, error) {
	if id == "" || id == "." || id == ".." {
		return "", fmt.Errorf("client: %w: %q is not the id of a %s", ErrInvalid, id, thing)
	}
	return collection + "/" + url.PathEscape(id), nil
}

// setBytes sets a body that is in memory.
func (r *request) setBytes(body []byte) {
	r.length = int64(len(body))
	r.body = func() (io.Reader, error) { return bytes.NewReader(body), nil }
}

// setJSON sets a JSON body, unless v is nil.
func (r *request) setJSON(v any) error {
	if v == nil {
		return nil
	}
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("client: %s: %w", r.name, err)
	}
	r.setBytes(body)
	r.header.Set("Content-Type", "application/json")
	return nil
}

// call sends r and decodes the response's JSON into result, unless it is nil. It returns the
// response's header. A response that was cut is a failed attempt, and one that is not JSON or that
// the request refuses is ErrBadResponse.
func (c *Client) call(ctx context.Context, r *request, result any) (http.Header, error) {
	var body []byte
	most := cmp.Or(r.maxJSON, maxJSON)
	r.receive = func(from io.Reader) (err error) {
		if body, err = io.ReadAll(io.LimitReader(from, int64(most)+1)); err == nil && len(body) > most {
			err = invalid("body", "is larger than %d bytes", most)
		}
		return err
	}
	resp, err := c.do(ctx, r)
	if err != nil {
		return nil, err
	}
	if result == nil {
		return resp.Header, nil
	}
	if err = checkJSON(body); err == nil {
		if err = json.Unmarshal(body, result); err != nil {
			err = invalid("body", "is not the JSON that was expected: %.*s", maxSentence, err.Error())
		}
	}
	if err == nil && r.check != nil {
		err = r.check()
	}
	if err != nil {
		return nil, r.failed(err)
	}
	return resp.Header, nil
}

// newAttempt returns the HTTP request of one attempt.
func (c *Client) newAttempt(ctx context.Context, r *request, w *watchdog) (*http.Request, error) {
	target := *c.base
	unescaped, err := url.PathUnescape(r.path)
	if err != nil {
		return nil, fmt.Errorf("client: %s: %w", r.name, err)
	}
	// RawPath keeps the escaping, and names with empty or dot segments are sent as they are.
	target.Path, target.RawPath = c.base.Path+unescaped, c.base.EscapedPath()+r.path
	target.RawQuery = r.query.Encode()
	req := (&http.Request{
		Method: r.method, URL: &target, Host: target.Host, Header: r.header.Clone(),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	req.Header.Set("User-Agent", c.userAgent)
	req.Header.Set("Accept-Encoding", "identity") // a decompressed body has no known length
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	switch {
	case r.body != nil:
		body, err := r.body()
		if err != nil {
			return nil, fmt.Errorf("client: %s: %w", r.name, err)
		}
		source := &watchedSource{body, w, c.limitSend}
		req.Body, req.ContentLength = source, r.length
		if r.length == 0 {
			req.Body = http.NoBody
			return req, source.Close() // net/http does not see it
		}
	case r.safety == once && (r.method == http.MethodGet || r.method == http.MethodHead):
		// net/http repeats a GET without a body by itself when a connection turns out to be closed.
		// A body that cannot be rewound prevents this. It is empty, so none is sent.
		req.Body = io.NopCloser(strings.NewReader(""))
	}
	return req, nil
}

// escapeName returns a blob name as a path. Its slashes remain.
func escapeName(name string) string {
	segments := strings.Split(name, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return strings.Join(segments, "/")
}

// blobPath returns a blob's path, or ErrInvalid if the account or the name is empty: the path would
// belong to another operation.
func blobPath(account, name string) (string, error) {
	if account == "" || name == "" {
		return "", fmt.Errorf("client: %w: the account or the name of the blob is empty", ErrInvalid)
	}
	return "/v1/blobs/" + url.PathEscape(account) + "/" + escapeName(name), nil
}

// versionPath returns a version's path, or the blob's if version is "". It returns ErrInvalid as
// blobPath does, and if version cannot be an id.
func versionPath(account, name, version string) (string, error) {
	path, err := blobPath(account, name)
	if err != nil || version == "" {
		return path, err
	}
	if err := checkVersion(version); err != nil {
		return "", fmt.Errorf("client: %w: %w", ErrInvalid, err)
	}
	return "/v1/versions/" + url.PathEscape(account) + "/" + version + "/" + escapeName(name), nil
}

// unknown returns err as an error that is also ErrOutcomeUnknown.
func unknown(err error) error {
	if errors.Is(err, ErrOutcomeUnknown) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
}
