package exchange

import (
	"testing"
	"time"
)

// TestTimingsAreMilliseconds checks the unit.
func TestTimingsAreMilliseconds(t *testing.T) {
	got := string(timings{1500 * time.Microsecond, 0, 2*time.Second + 499}.appendTo(nil))
	if want := "db;dur=1.500, store;dur=0.000, total;dur=2000.000"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
