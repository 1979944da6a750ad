package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/checksum"
	"sluice/client"
	"sluice/internal/testenv"
)

// script is a transport that answers each attempt with the next of its steps.
type script struct {
	t     *testing.T
	steps []func(*http.Request) (*http.Response, error)
	sent  []*http.Request
	times []time.Time
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	s.sent, s.times = append(s.sent, r), append(s.times, time.Now())
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

func respond(status int, header map[string]string, body string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		h := http.Header{}
		for name, value := range header {
			h.Set(name, value)
		}
		return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r}, nil
	}
}

func problem(status int, code string, more string) func(*http.Request) (*http.Response, error) {
	return respond(status, map[string]string{"Content-Type": "application/problem+json", "X-Request-Id": "R1"},
		`{"detail":"A sentence.","code":"`+code+`","requestId":"R1"`+more+`}`)
}

func fail(err error) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

var (
	errCut  = errors.New("connection reset")
	errDial = &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	stored  = respond(204, map[string]string{"ETag": checksum.ETag(5, checksum.Update(0, []byte("hello")))}, "")
)

// TestRepeats checks which attempts are repeated, and what is reported when the outcome of one is
// not known.
func TestRepeats(t *testing.T) {
	type step = func(*http.Request) (*http.Response, error)
	put := func(t *testing.T, c *client.Client, o client.PutOptions) error {
		_, err := c.Put(t.Context(), "team", "a", strings.NewReader("hello"), o)
		return err
	}
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
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{t: t, steps: test.steps}
				c, err := client.New("http://localhost:9090/pre/", client.Options{Transport: s, MaxAttempts: 4})
				testenv.OK(t, err)
				err = put(t, c, test.options)
				if !errors.Is(err, test.want) {
					t.Errorf("error %v, want %v", err, test.want)
				}
				if test.not != nil && errors.Is(err, test.not) {
					t.Errorf("error %v is also %v", err, test.not)
				}
				if len(s.steps) != 0 {
					t.Errorf("%d responses were not requested", len(s.steps))
				}
				for _, r := range s.sent {
					if got := r.URL.RequestURI(); got != "/pre/v1/blobs/team/a" {
						t.Errorf("request for %s", got)
					}
				}
			})
		})
	}
}

// TestRetryAfter checks that the client waits as long as the server demands, and not beyond the
// context's deadline.
func TestRetryAfter(t *testing.T) {
	limited := respond(429, map[string]string{"Retry-After": "30"}, "")
	synctest.Test(t, func(t *testing.T) {
		s := &script{t: t, steps: []func(*http.Request) (*http.Response, error){limited, stored}}
		c, err := client.New("http://localhost:9090", client.Options{Transport: s})
		testenv.OK(t, err)
		testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", strings.NewReader("hello"), client.PutOptions{})))
		if pause := s.times[1].Sub(s.times[0]); pause < 30*time.Second || pause > 31*time.Second {
			t.Errorf("pause of %v", pause)
		}
		s.steps = append(s.steps, limited)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		begin := time.Now()
		if _, err := c.Put(ctx, "team", "a", strings.NewReader("hello"), client.PutOptions{}); !errors.Is(err, client.ErrRateLimited) || time.Since(begin) != 0 {
			t.Errorf("error %v after %v", err, time.Since(begin))
		}
	})
}

// TestNamesAreSentAsTheyAre checks the escaping of names.
func TestNamesAreSentAsTheyAre(t *testing.T) {
	for name, want := range map[string]string{
		"a/b c":    "/v1/blobs/0x1/a/b%20c",
		"a//b":     "/v1/blobs/0x1/a//b",
		"../x":     "/v1/blobs/0x1/../x",
		"a%2Fb?#+": "/v1/blobs/0x1/a%252Fb%3F%23+",
		"日本":       "/v1/blobs/0x1/%E6%97%A5%E6%9C%AC",
	} {
		s := &script{t: t, steps: []func(*http.Request) (*http.Response, error){stored}}
		c, err := client.New("http://localhost:9090", client.Options{Transport: s})
		testenv.OK(t, err)
		testenv.OK(t, testenv.Error(c.Put(t.Context(), "0x1", name, strings.NewReader("hello"), client.PutOptions{})))
		if got := s.sent[0].URL.RequestURI(); got != want {
			t.Errorf("%q is sent as %s, want %s", name, got, want)
		}
	}
}

func TestBaseURLs(t *testing.T) {
	for _, s := range []string{"", "localhost:9090", "ftp://host", "http://", "http://u:p@host", "http://host?x", "http://host#x", "http://ho st"} {
		if _, err := client.New(s, client.Options{}); err == nil {
			t.Errorf("%q was accepted", s)
		}
	}
	for s, want := range map[string]string{"http://localhost:9090/": "http://localhost:9090", "https://host/sluice": "https://host/sluice"} {
		c, err := client.New(s, client.Options{})
		if err != nil || c.URL() != want {
			t.Errorf("%q: %v, %v", s, c.URL(), err)
		}
	}
}
