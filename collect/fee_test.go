package collect

import (
	"math"
	"testing"
)

// Invariant 178.
func TestFeeUnits(t *testing.T) {
	const most = math.MaxUint64
	for _, c := range []struct {
		gas, gasPrice uint64
		coinPrice     int64
		want          int64
	}{
		{0, 100, 1_000_000, 0},
		{1, 1, 1, 1},
		{1_000, 100, 1_000_000, 1_000},
		{1_001, 100, 1_000_000, 1_001},
		{1_000, 101, 999_999, 1_010},
		{7, 100, 0, 0},
		{most, most, math.MaxInt64, math.MaxInt64},
		{most, 1, 1, 184_467_440_738},
		{math.MaxInt64, 1, coin, math.MaxInt64},
		{math.MaxInt64, 1, coin + 1, math.MaxInt64},
	} {
		if got := FeeUnits(c.gas, c.gasPrice, c.coinPrice); got != c.want {
			t.Errorf("FeeUnits(%d, %d, %d) = %d, want %d", c.gas, c.gasPrice, c.coinPrice, got, c.want)
		}
	}
}

// Invariant 178.
func TestGasMeter(t *testing.T) {
	var g gasMeter
	if got := g.expected(); got != typicalGas {
		t.Errorf("%d before the first submission", got)
	}
	g.measure(12)
	if got := g.expected(); got != 12 {
		t.Errorf("%d after the first submission", got)
	}
	g.measure(16)
	if got := g.expected(); got != 13 {
		t.Errorf("%d after the second one", got)
	}
	g.measure(math.MaxUint64)
	for range 60 {
		g.measure(12)
	}
	if got := g.expected(); got > 15 {
		t.Errorf("%d long after one that stated too much", got)
	}
	g.pay(10, 100)
	g.pay(21, 200)
	if got := g.spent.Load(); got != 5_200 {
		t.Errorf("%d was spent", got)
	}
	g.pay(math.MaxUint64, math.MaxUint64)
	if got := g.spent.Load(); got != math.MaxInt64 {
		t.Errorf("%d was spent", got)
	}
}
