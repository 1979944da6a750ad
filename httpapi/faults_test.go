package httpapi

import (
	"strings"
	"testing"

	"sluice/wire"
)

// TestDelayedRequestsEndWithTheDrain checks that a request which a fault delays does not keep the
// service from ending: it gets a drain's response, and has no effect.
func TestDelayedRequestsEndWithTheDrain(t *testing.T) {
	s := newService(t, func(c *Config) { c.Faults = []string{"PUT blob: delay 10m"} })
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		s.refused(t, 503, wire.CodeDraining, "PUT", "/v1/blobs/0x1/a", "content")
	}()
	for s.faultsJSON().Faults[0].Injected == 0 {
		select {
		case <-answered:
			t.Fatal("the request was not delayed")
		default:
		}
	}
	s.Cut()
	<-answered
	s.want(t, 404, "HEAD", "/v1/blobs/0x1/a", "")
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
