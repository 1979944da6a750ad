package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"sluice/access"
	"sluice/metastore"
)

// streamRecorder is a recorder with the deadlines of a stream, which it never
// meets.
type streamRecorder struct{ *httptest.ResponseRecorder }

func (streamRecorder) SetReadDeadline(time.Time) error  { return nil }
func (streamRecorder) SetWriteDeadline(time.Time) error { return nil }

// A caller over HTTP/2 holds a place for each reply until it is sent to its end,
// also when it is a refusal or the answer to a probe. Beyond that a stream is
// reset, and when the replies are taken he is served as before.
func TestRepliesThatAreNotTakenAreBounded(t *testing.T) {
	h := newHosted(t, ReadsPublic, access.ScopeWrite)
	h.limiter = access.NewLimiter(access.LimiterOptions{Address: metastore.Limits{ConcurrentRequests: 1}})
	h.probeLimiter = access.NewLimiter(access.LimiterOptions{Address: metastore.Limits{ConcurrentRequests: 1}})
	for _, path := range []string{"/v1/info", "/v1/nothing", "/livez"} {
		ended := make(chan context.CancelFunc, 100)
		request := func() *httptest.ResponseRecorder {
			ctx, cancel := context.WithCancel(t.Context()) // that of a stream ends when the reply is out
			ended <- cancel
			r := httptest.NewRequestWithContext(ctx, "GET", path, nil)
			r.ProtoMajor, r.ProtoMinor, r.Proto = 2, 0, "HTTP/2.0"
			w := httptest.NewRecorder()
			func() {
				defer func() {
					if p := recover(); p != nil {
						if p != http.ErrAbortHandler { //nolint:errorlint // a panic is no error that was wrapped
							t.Errorf("panic %v", p)
						}
						w = nil
					}
				}()
				h.ServeHTTP(streamRecorder{w}, r)
			}()
			return w
		}
		served := 0
		for request() != nil {
			if served++; served == 50 {
				t.Fatalf("%s: there is no end to the replies that are not taken", path)
			}
		}
		if served < 2 {
			t.Errorf("%s: %d replies, want at least two", path, served)
		}
		close(ended)
		for cancel := range ended {
			cancel()
		}
		const tries = 100_000
		ended = make(chan context.CancelFunc, tries)
		again := 0
		for request() == nil { // until the places are free again
			if again++; again == tries {
				t.Fatalf("%s: the places are never free again", path)
			}
			runtime.Gosched()
		}
		close(ended)
		for cancel := range ended {
			cancel()
		}
	}
}
