package exchange

import (
	"net/http/httptest"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/test/testenv"
)

// TestPacePage: an exchange with many pages takes as long as their lists would, and no
// longer than until the service ends.
func TestPacePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := access.NewLimiter(access.LimiterOptions{Address: keys.Limits{RequestsPerSecond: 10}})
		x := &Exchange{Request: httptest.NewRequestWithContext(t.Context(), "GET", "/", nil), Allowance: limiter.OfAddress(netip.Addr{})}
		defer x.Allowance.Release()
		began := time.Now()
		for range 50 {
			testenv.OK(t, x.PacePage(nil, 101)) // as much as two requests
		}
		if took := time.Since(began); took < 8900*time.Millisecond || took > 9100*time.Millisecond {
			t.Errorf("50 pages took %v, want 9 s", took)
		}
		x.Allowance.Spend(10)
		x.Allowance.Spend(10)
		x.Allowance.Spend(10)
		ended := make(chan struct{})
		time.AfterFunc(time.Millisecond, func() { close(ended) })
		began = time.Now()
		testenv.OK(t, x.PacePage(ended, 1000))
		testenv.Equal(t, time.Since(began), time.Millisecond, "the wait until the service ends")
	})
}
