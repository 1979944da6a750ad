package client_test

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/client"
	"sluice/test/testenv"
)

// TestRetryFor checks for how long requests are repeated while the service is away, and that this
// changes nothing about which ones may be.
func TestRetryFor(t *testing.T) {
	refused := fail(syscall.ECONNREFUSED)
	proxy := respond(502, nil, "")
	for name, test := range map[string]struct {
		unreached bool
		away      time.Duration // with failures of this kind
		failure   step
		call      func(t *testing.T, c *client.Client) error
		want      error         // nil: success
		least     time.Duration // that the call takes
		most      time.Duration
	}{
		"back after 40 s":       {away: 40 * time.Second, failure: refused, call: put, least: 40 * time.Second, most: time.Minute},
		"a proxy, back":         {away: 40 * time.Second, failure: proxy, call: put, least: 40 * time.Second, most: time.Minute},
		"away for good":         {away: time.Hour, failure: refused, call: put, want: client.ErrOutcomeUnknown, least: time.Minute, most: 80 * time.Second},
		"never reached":         {unreached: true, away: time.Hour, failure: refused, call: put, want: client.ErrOutcomeUnknown, most: 13 * time.Second},
		"another error":         {away: time.Hour, failure: problem(500, "internal", ""), call: put, want: errAny, most: 13 * time.Second},
		"a refusal":             {away: time.Hour, failure: problem(404, "blob_not_found", ""), call: put, want: client.ErrNotFound, most: 2 * time.Second},
		"without a repetition":  {away: time.Hour, failure: refused, call: once, want: client.ErrOutcomeUnknown},
		"without a connection":  {away: 40 * time.Second, failure: fail(errDial), call: once, want: client.ErrBadResponse, least: 40 * time.Second, most: time.Minute},
		"a read that goes away": {away: time.Hour, failure: refused, call: head, want: syscall.ECONNREFUSED, least: time.Minute, most: 80 * time.Second},
	} {
		runInBubble(t, name, func(t *testing.T) {
			var back time.Time
			reaches := test.unreached
			outages := 0
			transport := roundTripper(func(r *http.Request) (*http.Response, error) {
				if !reaches {
					reaches = true
					return stored(r)
				}
				if time.Now().Before(back) {
					return test.failure(r)
				}
				return stored(r)
			})
			c := testenv.Must(client.New("http://h", client.Options{Transport: transport, RetryFor: time.Minute, OnOutage: func(error) { outages++ }}))(t)
			if !test.unreached {
				testenv.OK(t, put(t, c))
			}
			begin := time.Now()
			back = begin.Add(test.away)
			err := test.call(t, c)
			if test.want == nil {
				testenv.OK(t, err)
			} else {
				checkError(t, err, test.want, nil)
			}
			if took := time.Since(begin); took < test.least || took > test.most {
				t.Errorf("it took %v, want %v to %v", took, test.least, test.most)
			}
			testenv.Equal(t, outages > 0, test.least > 0, "an outage is announced")
		})
	}
}

func put(t *testing.T, c *client.Client) error {
	return testenv.Error(c.Put(t.Context(), "team", "a", strings.NewReader("hello"), client.PutOptions{}))
}

// once sends a request that must not be repeated when it may have taken effect.
func once(t *testing.T, c *client.Client) error {
	_, err := c.Faucet(t.Context(), "0x1", 1, 0)
	return err
}

func head(t *testing.T, c *client.Client) error {
	_, err := c.Head(t.Context(), "team", "a")
	return err
}

// TestSetBackServersAreNotWaitedFor sends a request to an instance that was set back, which serves
// it only when its operator has decided.
func TestSetBackServersAreNotWaitedFor(t *testing.T) {
	runInBubble(t, "rolled_back", func(t *testing.T) {
		s, c := newScript(t, 0, respond(503, map[string]string{"Content-Type": "application/problem+json", "Retry-After": "60"}, `{"code":"rolled_back"}`))
		begin := time.Now()
		checkError(t, c.Delete(t.Context(), "team", "a", client.DeleteOptions{}), client.ErrUnavailable, nil)
		testenv.Equal(t, len(s.steps)+int(time.Since(begin)), 0, "further requests and time")
	})
}

// TestRetryForEndsAPaidRead refuses everything but reads as an instance does that is not ready, at
// each moment of a payer's first read and of its second one. The reads must end within RetryFor,
// although the service demands a pause of a minute.
func TestRetryForEndsAPaidRead(t *testing.T) {
	for name, served := range map[string]int{"from the start": 0, "after the terms": 1, "after the channel was opened": 2, "after a purchase": 3} {
		runInBubble(t, name, func(t *testing.T) {
			s := newService(t, serviceOptions{})
			left := 1 << 30
			c := testenv.Must(client.New("http://localhost", client.Options{RetryFor: 5 * time.Second, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				if strings.HasPrefix(r.URL.Path, "/v1/blobs/") && r.Header.Get("Session-Id") == "" {
					return s.RoundTrip(r)
				}
				if left--; left >= 0 {
					return s.RoundTrip(r)
				}
				if r.Body != nil {
					check(r.Body.Close())
				}
				return respond(503, map[string]string{"Content-Type": "application/problem+json", "Retry-After": "60"}, `{"code":"not_ready"}`)(r)
			})}))(t)
			paidBlob(t, c)
			p := newPayer(t, c, testenv.MemoryDir(t), func(o *client.PayerOptions) { o.Chunksets = 3 })
			for range 2 {
				left, served = served, 0
				begin := time.Now()
				checkError(t, testenv.Error(readAll(t, c, client.GetOptions{Payment: &client.Payment{Payer: p}})), client.ErrUnavailable, nil)
				if took := time.Since(begin); took > 5*time.Second {
					t.Errorf("it took %v", took)
				}
			}
		})
	}
}
