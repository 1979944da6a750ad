package history

import (
	"testing"
	"time"
	"unsafe"

	"sluice/bytestore"
)

// TestElapsedByEitherClock checks that elapsed counts by either clock if the other one stood still:
// the monotonic clock while the machine was asleep, the wall clock when it was set back.
// Invariant 94.
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

// TestMalformedEpochs checks that text and names that belong to no epoch are refused.
func TestMalformedEpochs(t *testing.T) {
	e := newEpoch(7)
	if got, err := parseEpoch(e.String()); err != nil || got != e {
		t.Errorf("%q was parsed as %+v, %v", e, got, err)
	}
	for _, text := range []string{"", "x " + e.nonce, "0 " + e.nonce, "7", "7 ", "7 " + e.nonce[1:], "7 " + e.nonce + "x"} {
		if got, err := parseEpoch(text); err == nil {
			t.Errorf("%q was parsed as %+v", text, got)
		}
	}
	for _, name := range []bytestore.Name{epochName(7), claimName(7)} {
		if n, ok := epochOfName(name); !ok || n != 7 {
			t.Errorf("%s: %d, %t", name, n, ok)
		}
	}
	for _, name := range []bytestore.Name{"", epochPrefix, epochPrefix + "x-owner", "7-owner"} {
		if n, ok := epochOfName(name); ok {
			t.Errorf("%s is of epoch %d", name, n)
		}
	}
}
