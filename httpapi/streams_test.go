package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"sluice/access"
	"sluice/access/keys"
)

// streamRecorder is a recorder with a stream's deadlines, which never expire.
type streamRecorder struct{ *httptest.ResponseRecorder }

func (streamRecorder) SetReadDeadline(time.Time) error  { return nil }
func (streamRecorder) SetWriteDeadline(time.Time) error { return nil }

// TestUnreadResponsesAreBounded: over HTTP/2 each response counts for its caller until it
// has been sent completely, also a refusal or the response to a probe. Above the limit a stream is
// reset, and when the responses have been read the caller is served again.
// Invariant 67.
func TestUnreadResponsesAreBounded(t *testing.T) {
	one := keys.Limits{ConcurrentRequests: 1}
	h := newHosted(t, access.ReadsPublic, access.ScopeWrite, limited(one), func(c *Config) { c.ProbeLimits = one })
	for _, path := range []string{"/v1/info", "/v1/nothing", "/livez"} {
		request := func(ctx context.Context) (served bool) {
			defer func() {
				if p := recover(); p != nil {
					served = false
					if p != http.ErrAbortHandler { //nolint:errorlint // a panic is not a wrapped error
						t.Errorf("panic %v", p)
					}
				}
			}()
			r := httptest.NewRequestWithContext(ctx, "GET", path, nil)
			r.ProtoMajor, r.ProtoMinor, r.Proto = 2, 0, "HTTP/2.0"
			h.ServeHTTP(streamRecorder{httptest.NewRecorder()}, r)
			return true
		}
		ctx, sent := context.WithCancel(t.Context()) // a stream's context ends when the response is sent
		served := 0
		for request(ctx) {
			if served++; served == 50 {
				t.Fatalf("%s: the number of unread responses is not bounded", path)
			}
		}
		if served < 2 {
			t.Errorf("%s: %d responses, want at least two", path, served)
		}
		sent()
		ctx, sent = context.WithCancel(t.Context())
		for tries := 0; !request(ctx); tries++ { // until the places are free again
			if tries == 100_000 {
				t.Fatalf("%s: the places are never free again", path)
			}
			runtime.Gosched()
		}
		sent()
	}
}
