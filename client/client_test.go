package client_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/checksum"
	"sluice/client"
	"sluice/test/testenv"
	"sluice/wire"
)

// script is a transport that answers each attempt with the next of its steps.
type script struct {
	t     *testing.T
	steps []step
	sent  []*http.Request
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	s.sent = append(s.sent, r)
	if r.Body != nil {
		_, err := io.Copy(io.Discard, r.Body)
		if err = errors.Join(err, r.Body.Close()); err != nil {
			return nil, err
		}
	}
	if len(s.steps) == 0 {
		s.t.Errorf("unexpected request %s %s", r.Method, r.URL)
		return nil, errors.New("unexpected")
	}
	step := s.steps[0]
	s.steps = s.steps[1:]
	return step(r)
}

func respond(status int, header map[string]string, body string) step {
	return func(r *http.Request) (*http.Response, error) {
		h := http.Header{}
		for name, value := range header {
			h.Set(name, value)
		}
		return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r}, nil
	}
}

func respondJSON(status int, v any) step {
	text, err := json.Marshal(v)
	check(err)
	return respond(status, nil, string(text))
}

func problem(status int, code string, more string) step {
	return respond(status, map[string]string{"Content-Type": "application/problem+json", "X-Request-Id": "R1"},
		`{"detail":"A sentence.","code":"`+code+`","requestId":"R1"`+more+`}`)
}

func fail(err error) step {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

var (
	errCut  = errors.New("connection reset")
	errDial = &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	stored  = respond(204, map[string]string{"ETag": checksum.ETag(5, checksum.Update(0, []byte("hello")))}, "")
)

// TestRepeats checks which attempts are repeated, and which error is returned when an attempt's
// outcome is not known.
func TestRepeats(t *testing.T) {
	for name, test := range map[string]struct {
		steps   []step
		options client.PutOptions
		want    error // nil: success
		not     error
	}{
		"success":                     {steps: []step{stored}},
		"cut, then success":           {steps: []step{fail(errCut), stored}},
		"retryable 503":               {steps: []step{problem(503, "overloaded", `,"retryable":true`), stored}},
		"503 of a proxy":              {steps: []step{respond(503, nil, ""), stored}},
		"500":                         {steps: []step{problem(500, "internal", ""), stored}},
		"429":                         {steps: []step{problem(429, "rate_limited", ""), stored}},
		"503 that is not retryable":   {steps: []step{problem(503, "put_too_long", `,"retryable":false`)}, want: client.ErrUnavailable},
		"refusal":                     {steps: []step{problem(400, "bad_name", "")}, want: client.ErrInvalid, not: client.ErrOutcomeUnknown},
		"full":                        {steps: []step{problem(507, "storage_full", "")}, want: client.ErrStorageFull},
		"unknown":                     {steps: []step{problem(503, "outcome_unknown", `,"retryable":false`)}, want: client.ErrOutcomeUnknown},
		"condition false":             {steps: []step{problem(412, "precondition_failed", "")}, options: client.PutOptions{IfAbsent: true}, want: client.ErrPreconditionFailed, not: client.ErrOutcomeUnknown},
		"condition false after a cut": {steps: []step{fail(errCut), problem(412, "precondition_failed", "")}, options: client.PutOptions{IfAbsent: true}, want: client.ErrOutcomeUnknown},
		"condition false after a refused connection": {steps: []step{fail(errDial), problem(412, "precondition_failed", "")}, options: client.PutOptions{IfAbsent: true},
			want: client.ErrPreconditionFailed, not: client.ErrOutcomeUnknown},
		"condition false after 429": {steps: []step{problem(429, "rate_limited", ""), problem(412, "precondition_failed", "")}, options: client.PutOptions{IfMatch: `"5-0"`},
			want: client.ErrPreconditionFailed, not: client.ErrOutcomeUnknown},
		"cut until the end":     {steps: []step{fail(errCut), fail(errCut), fail(errCut), fail(errCut)}, want: client.ErrOutcomeUnknown},
		"refused until the end": {steps: []step{fail(errDial), fail(errDial), fail(errDial), fail(errDial)}, want: errDial, not: client.ErrOutcomeUnknown},
		"other bytes stored":    {steps: []step{respond(204, map[string]string{"ETag": checksum.ETag(5, 1)}, "")}, want: client.ErrCorrupt},
	} {
		runInBubble(t, name, func(t *testing.T) {
			s, c := newScript(t, 4, test.steps...)
			_, err := c.Put(t.Context(), "team", "a", strings.NewReader("hello"), test.options)
			checkError(t, err, test.want, test.not)
			for _, r := range s.sent {
				testenv.Equal(t, r.URL.RequestURI(), "/pre/v1/blobs/team/a", "the request's target")
			}
		})
	}
}

// TestRetryAfter checks that the client does not wait beyond the context's deadline.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := newScript(t, 0, respond(429, map[string]string{"Retry-After": "30"}, ""))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		begin := time.Now()
		_, err := c.Put(ctx, "team", "a", strings.NewReader("hello"), client.PutOptions{})
		testenv.Is(t, err, client.ErrRateLimited, "Put")
		testenv.Equal(t, time.Since(begin), 0, "the time that Put took")
	})
}

// TestNamesAreSentAsTheyAre checks the escaping of names.
func TestNamesAreSentAsTheyAre(t *testing.T) {
	for name, want := range map[string]string{
		"a/b c":    "/pre/v1/blobs/0x1/a/b%20c",
		"a//b":     "/pre/v1/blobs/0x1/a//b",
		"../x":     "/pre/v1/blobs/0x1/../x",
		"a%2Fb?#+": "/pre/v1/blobs/0x1/a%252Fb%3F%23+",
		"日本":       "/pre/v1/blobs/0x1/%E6%97%A5%E6%9C%AC",
	} {
		s, c := newScript(t, 0, stored)
		testenv.OK(t, testenv.Error(c.Put(t.Context(), "0x1", name, strings.NewReader("hello"), client.PutOptions{})))
		testenv.Equal(t, s.sent[0].URL.RequestURI(), want, "the target for %q", name)
	}
}

func TestBaseURLs(t *testing.T) {
	for _, s := range []string{"", "localhost:9090", "ftp://host", "http://", "http://u:p@host", "http://host?x", "http://host#x", "http://ho st"} {
		if _, err := client.New(s, client.Options{}); err == nil {
			t.Errorf("%q was accepted", s)
		}
	}
	for s, want := range map[string]string{"http://localhost:9090/": "http://localhost:9090", "https://host/sluice": "https://host/sluice"} {
		testenv.Equal(t, testenv.Must(client.New(s, client.Options{}))(t).URL(), want, "the URL of %q", s)
	}
}

// TestWhatCannotBeSent checks that a header with a line break is ErrInvalid, before anything is
// sent.
func TestWhatCannotBeSent(t *testing.T) {
	for name, o := range map[string]client.PutOptions{
		"a content type":    {ContentType: "text/\nplain"},
		"a language":        {ContentLanguage: "de\r"},
		"metadata":          {Metadata: map[string]string{"color": "blue\x00"}},
		"a name":            {Metadata: map[string]string{"co lor": "blue"}},
		"a condition":       {IfMatch: "\"a\n\""},
		"an empty name":     {Metadata: map[string]string{"a\n": ""}},
		"in an upload":      {ContentType: "text/\nplain", PartSize: 1},
		"a name, in upload": {Metadata: map[string]string{"co\nlor": "blue"}, PartSize: 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, c := newScript(t, 0)
			_, err := c.Put(t.Context(), "team", "a", strings.NewReader("hello"), o)
			checkError(t, err, client.ErrInvalid, client.ErrOutcomeUnknown)
			path := filepath.Join(t.TempDir(), "file")
			testenv.OK(t, os.WriteFile(path, []byte("hello"), 0o600))
			checkError(t, testenv.Error(c.PutFile(t.Context(), "team", "a", path, o)), client.ErrInvalid, client.ErrOutcomeUnknown)
		})
	}
	testenv.Is(t, testenv.Error(client.New("http://h", client.Options{Key: "key\n"})), client.ErrInvalid, "a key with a line break")
}

// TestWithoutConnection checks that a request for which there was no connection is not reported to
// have an unknown outcome, and is not repeated if the certificate is not trusted.
func TestWithoutConnection(t *testing.T) {
	var requests atomic.Int64
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) })
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	var connections atomic.Int64
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.StartTLS()
	defer server.Close()
	c := testenv.Must(client.New(server.URL, client.Options{}))(t)
	_, err := c.Put(t.Context(), "team", "a", strings.NewReader("hello"), client.PutOptions{})
	if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); !untrusted || errors.Is(err, client.ErrOutcomeUnknown) {
		t.Errorf("Put: %v", err)
	}
	if n := connections.Load(); n != 1 || requests.Load() != 0 {
		t.Errorf("%d connections and %d requests", n, requests.Load())
	}
	plain := httptest.NewServer(handler)
	defer plain.Close()
	c = testenv.Must(client.New(strings.Replace(plain.URL, "http:", "https:", 1), client.Options{MaxAttempts: 1}))(t)
	checkError(t, testenv.Error(c.Put(t.Context(), "team", "a", strings.NewReader("hello"), client.PutOptions{})), errAny, client.ErrOutcomeUnknown)
	testenv.Equal(t, requests.Load(), 0, "requests")
}

// TestErrorsOfMissingBlobs checks that a blob that does not exist is fs.ErrNotExist, with a code
// and a sentence also for HEAD, and that nothing else is.
func TestErrorsOfMissingBlobs(t *testing.T) {
	server, c := startServer(t)
	_, headErr := c.Head(t.Context(), "team", "none")
	_, getErr := c.Get(t.Context(), "team", "none", client.GetOptions{})
	for name, err := range map[string]error{"HEAD": headErr, "GET": getErr} {
		e, reported := errors.AsType[*client.Error](err)
		if !reported || e.Code != wire.CodeBlobNotFound || !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, client.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !strings.HasPrefix(headErr.Error(), "client: head of a blob: Blob not found (404 blob_not_found, request ") {
		t.Errorf("HEAD: %v", headErr)
	}
	_, sessionErr := c.Session(t.Context(), "none")
	elsewhere := testenv.Must(client.New(server.URL+"/wrong", client.Options{}))(t)
	_, routeErr := elsewhere.Head(t.Context(), "team", "none")
	for name, err := range map[string]error{"a session": sessionErr, "a route": routeErr} {
		checkError(t, err, client.ErrNotFound, fs.ErrNotExist)
		if !strings.Contains(err.Error(), "_not_found") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, old := newScript(t, 1, respond(404, nil, ""))
	_, err := old.Head(t.Context(), "team", "a")
	checkMessage(t, err, client.ErrNotFound, "localhost:9090 responded 404 Not Found")
}

// TestHeadIsRepeatedIfItMayBe checks that a HEAD without a body is repeated if Retry-After permits
// it.
func TestHeadIsRepeatedIfItMayBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := newScript(t, 0,
			respond(503, map[string]string{"Error-Code": "overloaded", "Retry-After": "1"}, ""),
			respond(503, map[string]string{"Error-Code": "put_too_long"}, ""))
		_, err := c.Head(t.Context(), "team", "a")
		if e, reported := errors.AsType[*client.Error](err); !reported || e.Code != wire.CodePutTooLong {
			t.Errorf("HEAD: %v", err)
		}
	})
}

// TestPutReturnsWhatIsStored compares the results of Put and PutFile with HEAD's.
func TestPutReturnsWhatIsStored(t *testing.T) {
	_, c := startServer(t)
	page := filepath.Join(t.TempDir(), "file")
	testenv.OK(t, os.WriteFile(page, []byte("<html>"+strings.Repeat("x", 5000)), 0o600))
	for _, test := range []struct {
		name, content string // "": PutFile
		o             client.PutOptions
		contentType   string
	}{
		{"plain", "text", client.PutOptions{}, "application/octet-stream"},
		{"parts", "text", client.PutOptions{PartSize: 1}, "application/octet-stream"},
		{"set", "text", client.PutOptions{ContentType: "text/css", ContentLanguage: "de", Metadata: map[string]string{"a": "b"}, Expires: time.Now().Add(time.Hour).Truncate(time.Millisecond)}, "text/css"},
		{"page.png", "", client.PutOptions{}, "image/png"},
		{"page", "", client.PutOptions{}, "text/html; charset=utf-8"},
		{"page-in-parts", "", client.PutOptions{PartSize: 1000}, "text/html; charset=utf-8"},
		{"other", "", client.PutOptions{ContentType: "text/css"}, "text/css"},
	} {
		var stored client.Blob
		var err error
		if test.content == "" {
			stored, err = c.PutFile(t.Context(), "team", test.name, page, test.o)
		} else {
			stored, err = c.Put(t.Context(), "team", test.name, strings.NewReader(test.content), test.o)
		}
		testenv.OK(t, err)
		head := testenv.Must(c.Head(t.Context(), "team", test.name))(t)
		stored.Expires, head.Expires = stored.Expires.UTC(), head.Expires.UTC()
		if stored.SHA256 != nil && head.SHA256 == nil { // a part's digest is not the blob's
			head.SHA256 = stored.SHA256
		}
		if !reflect.DeepEqual(stored, head) || stored.ContentType != test.contentType {
			t.Errorf("%s: %+v, and HEAD %+v", test.name, stored, head)
		}
	}
}
