package blob

import (
	"testing"
	"time"
	"unsafe"
)

// TestElapsedByEitherClock checks that elapsed counts by either clock if the other one stood still:
// the monotonic clock while the machine was asleep, the wall clock when it was set back.
func TestElapsedByEitherClock(t *testing.T) {
	// The layout of time.Time, which cannot be given two clocks otherwise: 33 bits of seconds and
	// 30 of nanoseconds by the wall clock, and nanoseconds by the monotonic clock.
	type layout struct {
		wall      uint64
		monotonic int64
		loc       *time.Location
	}
	const nanosecondBits = 30
	now := time.Now()
	asleep, setBack := now, now
	(*layout)(unsafe.Pointer(&asleep)).wall -= 3600 << nanosecondBits
	(*layout)(unsafe.Pointer(&setBack)).monotonic -= int64(time.Hour)
	if now.Sub(asleep) != 0 || now.Round(0).Sub(asleep.Round(0)) != time.Hour || now.Sub(setBack) != time.Hour || !setBack.Round(0).Equal(now.Round(0)) {
		t.Fatal("time.Time has another layout")
	}
	for name, then := range map[string]time.Time{"the monotonic clock": asleep, "the wall clock": setBack} {
		if got := elapsed(then); got < time.Hour || got > time.Hour+time.Minute {
			t.Errorf("%s stood still for an hour: %s have elapsed", name, got)
		}
	}
}
