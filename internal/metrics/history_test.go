package metrics

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestHistory checks that the history has each interval's requests for an hour, without the
// excepted routes.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHistory(NewRequests(nil, nil), func(route string) bool { return route == "/livez" })
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			h.Record(ctx)
		}()
		synctest.Wait()
		observe := func(route string, status int, took time.Duration, in, out int64) {
			h.requests.Begin()
			h.requests.Observe(route, "GET", status, took, in, out)
		}
		observe("/v1/blobs/{account}", 200, 3*time.Millisecond, 5, 7)
		observe("/v1/blobs/{account}", 404, 3*time.Millisecond, 0, 1)
		observe("/livez", 200, time.Hour, 0, 0)
		time.Sleep(historyInterval)
		synctest.Wait()
		observe("/v1/info", 503, 100*time.Millisecond, 0, 0)
		time.Sleep(historyInterval / 2)
		got := h.Intervals(time.Now())
		if len(got) != 2 || got[0].Took != historyInterval || got[1].Took != historyInterval/2 {
			t.Fatalf("%+v", got)
		}
		first, second := got[0], got[1]
		if first.Requests != 2 || first.ClientErrors != 1 || first.ServerErrors != 0 || first.BytesIn != 5 || first.BytesOut != 8 {
			t.Errorf("the first interval is %+v", first)
		}
		// Both requests are in the bucket from 2 ms to 8 ms.
		if first.P50 != 5*time.Millisecond || first.P99 <= first.P90 || first.P99 > 8*time.Millisecond {
			t.Errorf("the quantiles are %v, %v and %v", first.P50, first.P90, first.P99)
		}
		if second.Requests != 1 || second.ServerErrors != 1 || second.P50 < 32*time.Millisecond || second.P50 > 128*time.Millisecond {
			t.Errorf("the second interval is %+v", second)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		got = h.Intervals(time.Now())
		if len(got) != historyLength+1 || got[0].Requests != 0 || got[0].P50 != 0 {
			t.Errorf("%d intervals, the first is %+v", len(got), got[0])
		}
		stop()
		<-done
	})
}

// TestQuantileBeyondTheBuckets checks that a request that took longer than the last bound counts as
// it.
func TestQuantileBeyondTheBuckets(t *testing.T) {
	h := NewHistory(NewRequests(nil, nil), func(string) bool { return false })
	before := h.sample(time.Now())
	h.requests.Begin()
	h.requests.Observe("/v1/info", "GET", 200, time.Hour, 0, 0)
	got := h.sample(time.Now()).since(before)
	if bound := 131072 * time.Millisecond; got.P50.Round(time.Millisecond) != bound || got.P99.Round(time.Millisecond) != bound {
		t.Errorf("a request of an hour has the quantiles %v and %v, want %v", got.P50, got.P99, bound)
	}
}
