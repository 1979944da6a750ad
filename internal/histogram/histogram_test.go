package histogram_test

import (
	"reflect"
	"sync"
	"testing"

	"sluice/internal/histogram"
)

// TestCounts observes values at, between and above the bounds, concurrently.
func TestCounts(t *testing.T) {
	h := histogram.New(1, 10, 3)
	const goroutines = 8
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for _, v := range []float64{0, 1, 1.5, 10, 100, 1000} {
				h.Observe(v)
			}
		})
	}
	all.Wait()
	want := histogram.Counts{
		Bounds: []float64{1, 10, 100}, Within: []uint64{2 * goroutines, 4 * goroutines, 5 * goroutines},
		Count: 6 * goroutines, Sum: 1112.5 * goroutines,
	}
	if got := h.Counts(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
