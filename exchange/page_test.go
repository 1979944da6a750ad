package exchange

import (
	"errors"
	"net/http/httptest"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/test/testenv"
)

// TestPacePage: an exchange with many pages takes as long as their lists would, and no longer than
// until the service ends, or its caller may read no more.
func TestPacePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := access.NewLimiter(access.LimiterOptions{Address: keys.Limits{RequestsPerSecond: 10}})
		x := &Exchange{Request: httptest.NewRequestWithContext(t.Context(), "GET", "/", nil), Allowance: limiter.OfAddress(netip.Addr{})}
		defer x.Allowance.Release()
		still := func() error { return nil }
		began := time.Now()
		for range 50 {
			testenv.OK(t, x.PacePage(nil, 101, still)) // as much as two requests
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
		testenv.OK(t, x.PacePage(ended, 1000, still))
		testenv.Equal(t, time.Since(began), time.Millisecond, "the wait until the service ends")

		for range 10 {
			x.Allowance.Spend(10)
		}
		revoked, asked := errors.New("revoked"), 0
		began = time.Now()
		err := x.PacePage(nil, 1, func() error {
			if asked++; asked < 2 {
				return nil
			}
			return revoked
		})
		testenv.Is(t, err, revoked, "a page for a caller who may read no more")
		testenv.Equal(t, time.Since(began), 2*stillEvery, "the wait until that is seen")
	})
}
