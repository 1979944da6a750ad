package boottime_test

import (
	"testing"

	"sluice/internal/boottime"
)

func TestNowDoesNotGoBackwards(t *testing.T) {
	last := boottime.Now()
	for range 1000 {
		next := boottime.Now()
		if next < last {
			t.Fatalf("the clock went from %v to %v", last, next)
		}
		last = next
	}
}
