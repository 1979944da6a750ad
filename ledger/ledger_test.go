package ledger_test

import (
	"math"
	"testing"

	"sluice/ledger"
	"sluice/test/testenv"
)

func TestCost(t *testing.T) {
	const most = math.MaxInt64
	for _, tc := range []struct{ count, price, want int64 }{
		{0, 1, 0}, {0, most, 0}, {3, 7, 21}, {1, most, most}, {most, 1, most}, {2, most, most},
		{most / 3, 3, most / 3 * 3}, {most/3 + 1, 3, most}, {most, most, most},
	} {
		testenv.Equal(t, ledger.Cost(tc.count, tc.price), tc.want, "Cost(%d, %d)", tc.count, tc.price)
	}
}

// TestSellingLimit: a limit grows by the collected amount, within the ceiling, and only for the
// form that is known.
// Invariant 176.
func TestSellingLimit(t *testing.T) {
	const most = math.MaxInt64
	for _, c := range []struct {
		collected            int64
		known, form          string
		start, ceiling, want int64
	}{
		{0, "", "", 0, 100, 100}, // without a chain
		{0, "f", "f", 10, 100, 10},
		{0, "", "f", 10, 100, 10},
		{5, "f", "f", 10, 100, 15},
		{5, "f", "g", 10, 100, 10},
		{5, "", "g", 10, 100, 10},
		{90, "f", "f", 10, 100, 100},
		{91, "f", "f", 10, 100, 100},
		{0, "f", "f", 200, 100, 100},
		{5, "f", "g", 200, 100, 100},
		{most, "f", "f", 10, 100, 100},
		{most, "f", "f", 1, most, most},
		{most, "f", "f", most, most, most},
		{most - 10, "f", "f", 10, most, most},
		{most - 11, "f", "f", 10, most, most - 1},
	} {
		channel := ledger.Channel{Collected: c.collected, Form: c.known}
		if got := channel.SellingLimit(c.start, c.ceiling, c.form); got != c.want {
			t.Errorf("the limit of a channel with %d collected and form %q is %d for form %q from %d to %d, want %d",
				c.collected, c.known, got, c.form, c.start, c.ceiling, c.want)
		}
	}
}
