package engine

import (
	"bytes"
	"testing"
	"time"
)

// TestRowIDsSortByTime checks keys that were made a microsecond apart.
func TestRowIDsSortByTime(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, time.November, 24, 15, 26, 17, 998_500_000, time.UTC)
	last := NewRowID(at)
	for range 3000 {
		at = at.Add(time.Microsecond)
		next := NewRowID(at)
		if bytes.Compare(last[:], next[:]) >= 0 {
			t.Fatalf("at %v the key is %x, after %x", at, next, last)
		}
		last = next
	}
	if a, b := NewRowID(at), NewRowID(at); a == b {
		t.Errorf("two keys of one time are %x", a)
	}
}
