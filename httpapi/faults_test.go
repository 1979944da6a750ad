package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"sluice/wire"
)

// TestDelayedRequestsEndWithTheDrain checks that a request which a fault delays does not keep the
// service from ending: it gets a drain's response, and has no effect.
func TestDelayedRequestsEndWithTheDrain(t *testing.T) {
	s := newService(t, func(c *Config, _ *Server) { c.Faults = []string{"PUT blob: delay 10m"} })
	type answer struct {
		res  *http.Response
		body string
	}
	answered := make(chan answer)
	go func() {
		res, body := s.do(t, "PUT", "/v1/blobs/0x1/a", "content")
		answered <- answer{res, body}
	}()
	for s.faultsJSON().Faults[0].Injected == 0 {
		select {
		case a := <-answered:
			t.Fatalf("the request was not delayed: %d %s", a.res.StatusCode, a.body)
		default:
		}
	}
	s.Cut()
	a := <-answered
	wantProblem(t, a.res, a.body, http.StatusServiceUnavailable, wire.CodeDraining)
	if res, body := s.do(t, "HEAD", "/v1/blobs/0x1/a", ""); res.StatusCode != http.StatusNotFound {
		t.Errorf("the blob was stored: %d %s", res.StatusCode, body)
	}
}

// TestOperationsThatHaveFaults checks that every operation in the interface has a name for rules,
// and that nothing else has one.
func TestOperationsThatHaveFaults(t *testing.T) {
	patterns := map[string]bool{}
	for _, r := range routes(&Server{faucet: true}) {
		local := strings.HasPrefix(r.Pattern, "/v1/local/")
		if want := !r.Unprefixed && !local; (r.Value.fault != "") != want {
			t.Errorf("%s %s has the name %q", r.Method, r.Pattern, r.Value.fault)
		}
		patterns[r.Pattern] = true
	}
	for pattern, name := range faultOperations {
		if !patterns[pattern] {
			t.Errorf("there is no route %s for %s", pattern, name)
		}
	}
}
