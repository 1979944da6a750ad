package engine

import (
	"errors"
	"testing"
	"time"

	"sluice/database"
	"sluice/test/testenv"
)

// machine is a machine's wall clock and elapsed time.
type machine struct {
	shown time.Time
	ran   time.Duration
}

func newMachine() *machine {
	return &machine{shown: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), ran: time.Hour}
}

func (m *machine) wall() time.Time       { return m.shown }
func (m *machine) passed() time.Duration { return m.ran }

// run advances the time, and set sets the wall clock.
func (m *machine) run(d time.Duration) { m.shown, m.ran = m.shown.Add(d), m.ran+d }
func (m *machine) set(d time.Duration) { m.shown = m.shown.Add(d) }

// TestWallClockThatIsSet: a wall clock that was set is adopted only after an hour without
// deletions. If it is corrected before, deletions resume immediately.
func TestWallClockThatIsSet(t *testing.T) {
	for _, jump := range []time.Duration{25 * time.Hour, -25 * time.Hour, 10 * time.Second} {
		m := newMachine()
		c := newWallClock(m.wall, m.passed)
		want := func(when string, at time.Time, deletions error) {
			t.Helper()
			testenv.Is(t, c.deletions(nil), deletions, "jump of %v, %s: deletions", jump, when)
			if got := c.now(); !got.Equal(at) {
				t.Errorf("jump of %v, %s: the time is %v, want %v", jump, when, got, at)
			}
		}
		m.run(time.Hour) // including sleep
		want("before", m.shown, nil)
		m.set(jump)
		want("after", m.shown.Add(-jump), database.ErrClock)
		m.run(jumpPause - 1)
		want("at the end of the pause", m.shown.Add(-jump), database.ErrClock)
		m.run(1)
		want("after the pause", m.shown, nil)
		m.set(jump)
		want("after another", m.shown.Add(-jump), database.ErrClock)
		m.run(jumpPause / 2)
		m.set(jump)
		want("after a third in the pause", m.shown.Add(-2*jump), database.ErrClock)
		m.run(jumpPause - 1)
		want("at the end of the longer pause", m.shown.Add(-2*jump), database.ErrClock)
		m.set(-2 * jump)
		want("corrected", m.shown, nil)
		m.set(time.Second)
		want("a leap second", m.shown, nil)
	}
}

// TestServerClockKeepsTheBest: a slow measurement does not replace an accurate one, unless it
// contradicts it.
func TestServerClockKeepsTheBest(t *testing.T) {
	m := newMachine()
	c := &serverClock{passed: m.passed}
	measure := func(took, wrong time.Duration) {
		sent, shown := m.ran, m.shown
		m.run(took)
		c.record(shown.Add(wrong), sent)
	}
	want := func(when string, within time.Duration) {
		t.Helper()
		if off := c.now().Sub(m.shown).Abs(); off > within {
			t.Errorf("%s: wrong by %v, want at most %v", when, off, within)
		}
	}
	measure(time.Millisecond, 0)
	want("first", time.Millisecond)
	measure(8*time.Second, 0)
	want("a slow one", 10*time.Millisecond)
	for range 1_000 {
		m.run(measureEvery)
		m.set(measureEvery / 5_000) // clocks drift
		measure(time.Millisecond, 0)
	}
	want("long after", 10*time.Millisecond)
	testenv.Is(t, c.deletions(nil), nil, "drift is taken for a jump")
	// The server is ahead: now is at least the time that it showed last.
	sent, shown := m.ran, m.shown.Add(20*time.Millisecond)
	m.run(10 * time.Millisecond)
	c.record(shown, sent)
	if now := c.now(); now.Before(shown) {
		t.Errorf("the time is %v after the server showed %v", now, shown)
	}
	m.run(measurementMaxAge + 1)
	testenv.Is(t, c.err(), database.ErrClock, "not measured for too long")
	m.set(-time.Hour)
	measure(time.Millisecond, 0)
	want("after it was set", time.Millisecond)
	if err := c.deletions(nil); !errors.Is(err, database.ErrClock) || c.err() != nil {
		t.Errorf("after it was set: %v, %v", err, c.err())
	}
}

// TestWallClockThatIsSetTwice: the pause starts again when the clock is set again.
func TestWallClockThatIsSetTwice(t *testing.T) {
	m := newMachine()
	c := newWallClock(m.wall, m.passed)
	wants := func(when string, pauses bool) {
		t.Helper()
		if err := c.deletions(nil); errors.Is(err, database.ErrClock) != pauses {
			t.Errorf("%s: %v", when, err)
		}
	}
	m.set(25 * time.Hour)
	wants("set", true)
	m.run(jumpPause - time.Minute)
	m.set(time.Hour)
	wants("set once more", true)
	m.run(jumpPause - time.Minute)
	wants("almost a pause later", true)
	m.run(time.Minute)
	wants("a pause later", false)
	if got := c.now(); !got.Equal(m.wall()) {
		t.Errorf("it shows %v, the wall clock %v", got, m.wall())
	}
}
