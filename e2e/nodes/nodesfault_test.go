package nodes

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// How a request may fail while the stores stop and start.
var (
	errNothingHappened = errors.New("nothing happened")
	errMayHaveHappened = errors.New("it may have happened")
)

// outcome reports whether a failed request may have had an effect. It returns nil for every
// response that the caller must judge. It takes a 503 with any other code than outcome_unknown to
// mean that nothing happened, so the tests verify this promise.
func outcome(r e2e.Response, err error) error {
	var p e2e.Problem
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: %w", errNothingHappened, err)
	case err != nil:
		return fmt.Errorf("%w: %w", errMayHaveHappened, err)
	case r.Status == http.StatusBadGateway || r.Status == http.StatusGatewayTimeout:
		return fmt.Errorf("%w: %v", errMayHaveHappened, r) // a load balancer responds so
	case r.Status != http.StatusServiceUnavailable:
		return nil
	case json.Unmarshal(r.Body, &p) == nil && p.Code != nil && *p.Code != "outcome_unknown":
		return fmt.Errorf("%w: %v", errNothingHappened, r)
	default:
		return fmt.Errorf("%w: %v", errMayHaveHappened, r)
	}
}

// TestRollingRestart restarts node after node behind nginx with the documented configuration. If
// the ports outlive the processes no request fails; otherwise no client's next one does.
// Invariants 57, 89.
func TestRollingRestart(t *testing.T) {
	testenv.Require(t, testenv.Nginx)
	t.Parallel()
	for name, sockets := range map[string]bool{"own ports": false, "inherited sockets": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The test relies on the order of these two only, which TestNginxIsFasterThanTheDrain
			// checks.
			c := e2e.NewCluster(t, e2e.Options{Flags: append([]string{"--base-path", e2e.HostedBase, "--drain-wait", "1s"}, linearFlags...)})
			keepAlive := [2]string{"keepalive_timeout 3s;                     # shorter", "keepalive_timeout 300ms; # shorter"}
			failures := 1
			if sockets {
				failures = 0
				for range 3 {
					startWithSocket(c)
				}
			} else {
				c.Start(3)
			}
			const phase = 60
			checkHistories(t, []*e2e.Server{c.Balanced(t, keepAlive)}, 7*phase, phase, failures, func(further func()) {
				for _, node := range c.Nodes {
					further()
					node.Stop()
					node.Restart()
					// That is later than its /readyz reports 200.
					node.Eventually("the balancer does not use the node", func() bool { return strings.Contains(node.Log.String(), "route=/v1/blobs/") })
					further()
				}
			})
		})
	}
}

// awaitReadyz waits until each node is ready, or is not.
func awaitReadyz(t *testing.T, views []*e2e.Server, status int) {
	t.Helper()
	for i, view := range views {
		view.Eventually(fmt.Sprintf("/readyz of node %d is not %d", i, status), func() bool {
			r := view.Do("GET", "/readyz", nil)
			if r.Status == 503 {
				e2e.CheckProblem(t, r, 503, "not_ready")
			}
			return r.Status == status
		})
	}
}
