package node

import (
	"math"
	"testing"
	"time"

	"sluice/test/testenv"
)

// TestTuning checks that a new channel is trusted with a small part of the final limit, but with
// enough for the chunksets that the Go client buys at once, and that it is collected at half of the
// limit.
func TestTuning(t *testing.T) {
	for _, test := range []struct{ limit, price, starting, settleAt int64 }{
		{1_000_000, 1, 10_000, 500_000}, {5000, 1, 100, 2500}, {5000, 7, 700, 2500}, {50, 1, 50, 25}, {1, 1, 1, 1}, {1_000_000, math.MaxInt64, 1_000_000, 500_000},
	} {
		c := Config{Payments: Payments{UnsettledLimit: test.limit, ChunksetPrice: test.price}}
		got := c.tuning()
		testenv.Equal(t, [2]int64{got.StartingLimit, got.SettleAt}, [2]int64{test.starting, test.settleAt}, "with %+v", test)
	}
	c := Config{Tuning: Tuning{PurgeEvery: time.Second}}
	if got := c.tuning(); got.PurgeEvery != time.Second || got.SweepEvery != 6*time.Hour {
		t.Errorf("%+v", got)
	}
}
