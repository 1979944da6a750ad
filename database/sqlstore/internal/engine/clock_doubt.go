package engine

import (
	"fmt"
	"sync/atomic"
	"time"

	"sluice/database"
)

// restartGap is the longest time from the last time that was kept to a start for which the time is
// believed at once. It exceeds the interval at which nodes keep the time, plus a restart, and is
// far less than any time for which something is kept. How long a process did not run is known from
// the clock alone, so after a longer gap the clock may as well have been set.
const restartGap = 5 * time.Minute

// clockDoubt judges whether the time that a clock shows is believed. It is not if it differs from
// the time that was last known plus the time elapsed since. Then it is in doubt until the clock is
// corrected, or has gone on for jumpPause without being set again. Only inDoubt may be called
// concurrently.
type clockDoubt struct {
	known  clockReading  // the last time that was believed
	spare  time.Duration // by how much more than known the time may be: how long no process ran
	jump   time.Duration // the time shown last, less known; if the time is in doubt
	since  time.Duration // elapsed time when it was shown first
	atOnce bool          // it was so when this process started
	ran    bool          // it was set while a process ran
	open   atomic.Bool   // the time is in doubt
}

// inDoubt reports whether the last time that was judged is in doubt.
func (d *clockDoubt) inDoubt() bool { return d.open.Load() }

// begin judges a process's first reading by an earlier one's keptTime. A doubt that was open
// continues if the clock has gone on since.
func (d *clockDoubt) begin(k keptTime, first clockReading) {
	d.believe(first)
	if k.Known.IsZero() {
		return // nothing was kept yet
	}
	d.known, d.spare = clockReading{shown: k.Known, at: first.at}, restartGap
	d.judge(first, first.at)
	d.atOnce, d.ran = d.inDoubt(), k.Ran
	if gap := first.shown.Sub(k.Shown); !k.Shown.IsZero() && gap > -clockStep && gap <= restartGap {
		d.since -= k.Waited
	}
}

// judge decides at an elapsed time whether a reading is believed.
func (d *clockDoubt) judge(r clockReading, at time.Duration) {
	within := r.within + (at-r.at)/clockDrift
	jump := r.carriedTo(at).Sub(d.known.carriedTo(at))
	limit := clockStep + within + d.known.within + (at-d.known.at)/clockDrift
	same := d.inDoubt() && (jump-d.jump).Abs() < clockStep+within
	switch {
	case -limit < jump && jump < limit+d.spare, same && at-d.since >= jumpPause:
		d.believe(r)
	case !same:
		d.jump, d.since, d.atOnce, d.ran = jump, at, false, true
		d.open.Store(true)
	}
}

// believe ends all doubts.
func (d *clockDoubt) believe(r clockReading) {
	d.known, d.spare, d.jump, d.atOnce = r, 0, 0, false
	d.open.Store(false)
}

// keep returns the keptTime for a later process at an elapsed time.
func (d *clockDoubt) keep(at time.Duration) keptTime {
	k := keptTime{Known: d.known.carriedTo(at)}
	if d.inDoubt() {
		k.Shown, k.Waited, k.Ran = k.Known.Add(d.jump), at-d.since, d.ran
	}
	return k
}

// err returns an ErrClock while the time is in doubt. clock names the clock that shows the time;
// meanwhile adds the consequences of a doubt that began while the process ran.
func (d *clockDoubt) err(clock, meanwhile string, at time.Duration) error {
	if !d.inDoubt() {
		return nil
	}
	left := (jumpPause - (at - d.since)).Round(time.Second)
	switch {
	case d.atOnce && d.jump > 0:
		return fmt.Errorf("%w: %w: %s is %s later than the time that was kept last: nothing is deleted by age, and nothing is forgotten, for another %s; if the clock is wrong now, correct it within that time",
			database.ErrClock, database.ErrLongStop, clock, d.jump.Round(time.Second), left)
	case d.atOnce:
		return fmt.Errorf("%w: %s is %s before the time that was kept last: nothing is deleted by age, and nothing is forgotten, for another %s; if the clock is wrong now, correct it within that time",
			database.ErrClock, clock, -d.jump.Round(time.Second), left)
	default:
		return fmt.Errorf("%w: %s was set by %s: nothing is deleted by age, and nothing is forgotten%s, for another %s; if the clock is wrong now, correct it within that time",
			database.ErrClock, clock, d.jump.Round(time.Second), meanwhile, left)
	}
}

// adopted returns by how much the clock was set, if k is the time of a clock that was set while a
// process ran, and that last had in doubt. It is zero if a restart would have believed it at once.
func (k *keptTime) adopted(last *keptTime) time.Duration {
	by := last.Shown.Sub(last.Known)
	if !last.Ran || !k.Shown.IsZero() || by.Abs() <= restartGap || k.Known.Sub(last.Shown).Abs() >= k.Known.Sub(last.Known).Abs() {
		return 0
	}
	return by
}
