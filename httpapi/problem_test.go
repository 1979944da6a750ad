package httpapi

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/go-json-experiment/json"

	"sluice/internal/connlimit"
	"sluice/wire"
)

// TestConnectionRefusal checks the responses to requests on connections over a limit.
func TestConnectionRefusal(t *testing.T) {
	for _, tc := range []struct {
		reason connlimit.Reason
		status int
		code   wire.Code
	}{
		{connlimit.TooMany, http.StatusServiceUnavailable, wire.CodeOverloaded},
		{connlimit.TooManyFromAddress, http.StatusTooManyRequests, wire.CodeTooManyAtOnce},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			text := ConnectionRefusal(true)(tc.reason, method == http.MethodHead)
			res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(text)), &http.Request{Method: method})
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			closeOrFail(t, res.Body)
			h := res.Header
			if err != nil || res.StatusCode != tc.status || !res.Close || h.Get("Retry-After") != "1" || h.Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("%s: %s, %v, %v", method, res.Status, h, err)
			}
			if method == http.MethodHead {
				if len(body) > 0 {
					t.Errorf("HEAD has the body %q", body)
				}
				continue
			}
			wantProblem(t, res, string(body), tc.status, tc.code)
			var p wire.Problem
			if err := json.Unmarshal(body, &p); err != nil {
				t.Fatal(err)
			}
			if retryable := p.Retryable != nil && *p.Retryable; retryable != (tc.status == http.StatusServiceUnavailable) {
				t.Errorf("problem %s", body)
			}
		}
	}
}
