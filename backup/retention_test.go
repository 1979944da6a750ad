package backup

import (
	"slices"
	"testing"
	"time"
)

// TestRetention keeps backups by each rule. The times are hours before a Wednesday at noon.
// Invariant 124.
func TestRetention(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	hours := []int{24 * 400, 24 * 60, 24 * 26, 24 * 8, 24 * 3, 24*2 - 1, 24 * 2, 13, 1, 0}
	slices.SortFunc(hours, func(a, b int) int { return b - a })
	var times []time.Time
	for _, h := range hours {
		times = append(times, noon.Add(-time.Duration(h)*time.Hour))
	}
	for _, test := range []struct {
		keep Retention
		want []int // hours
	}{
		{Retention{Last: 2}, []int{1, 0}},
		{Retention{Last: 100}, hours},
		{Retention{Hourly: 2}, []int{1, 0}},
		{Retention{Daily: 2}, []int{13, 0}},
		{Retention{Daily: 3}, []int{47, 13, 0}},
		{Retention{Weekly: 2}, []int{72, 0}},
		{Retention{Monthly: 2}, []int{24 * 26, 0}},
		{Retention{Monthly: 3}, []int{24 * 60, 24 * 26, 0}},
		{Retention{Yearly: 2}, []int{24 * 400, 0}},
		{Retention{Last: 1, Yearly: 5}, []int{24 * 400, 0}},
	} {
		var got []int
		for i, keep := range test.keep.keeps(times) {
			if keep {
				got = append(got, hours[i])
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%+v keeps the backups of %v hours ago, want %v", test.keep, got, test.want)
		}
	}
}
