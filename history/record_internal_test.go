package history

import (
	"strings"
	"testing"
	"time"
	"unsafe"

	"sluice/bytestore"
	"sluice/database"
	"sluice/test/testenv"
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

// TestRecordNames checks that a record's object is parsed as it was made, and that texts and names
// that belong to no record are refused.
func TestRecordNames(t *testing.T) {
	r := record{17, database.Record{Number: 1 << 40, Owner: "abcdefghij234567", Nonce: "234567abcdefghij"}}
	testenv.Equal(t, parseRecord(r.Number, r.String()), r, "a record that was parsed")
	text := r.String()
	for _, text := range []string{"", "x" + text[1:], text[1:], text + "x", strings.Repeat("0", 16) + text[16:], strings.ReplaceAll(text, " ", "-")} {
		testenv.Equal(t, parseRecord(1, text), record{Record: database.Record{Number: 1}}, "%q", text)
	}
	for name, want := range map[bytestore.Name]string{recordName(7): "", claimName(7): "-claim", candidateName(7, r.Owner): "-claim-" + r.Owner} {
		if n, rest, ok := parseName(name); !ok || n != 7 || rest != want || !name.Valid() {
			t.Errorf("%s is %d, %q, %t", name, n, rest, ok)
		}
	}
	for _, name := range []bytestore.Name{"", prefix, prefix + "7", "sluice-instance", prefix + "000000000000000x", prefix + "0000000000000000"} {
		if n, rest, ok := parseName(name); ok {
			t.Errorf("%s is %d, %q", name, n, rest)
		}
	}
}
