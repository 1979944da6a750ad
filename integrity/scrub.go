package integrity

import (
	"context"
	"errors"
	"time"

	"sluice/database"
	"sluice/internal/task"
	"sluice/metastore"
)

// The pace at which the scrub reads. A round is to end after roundTenths tenths of its period, so
// that delays do not make it late. It is not slower than minScrubRate, so that a small instance is
// checked soon after its start, and an extent counts as extentWeight bytes more than it has.
const (
	roundTenths  = 9
	minScrubRate = 1 << 20 // bytes per second
	extentWeight = 64 << 10
	scrubPage    = 100       // extents
	measureEvery = time.Hour // how much there is to check

	// saveEvery is how often the scrub saves how far it is. After a crash it reads again all
	// extents that it has read since. saveTimeout bounds a save.
	saveEvery   = 30 * time.Second
	saveTimeout = 10 * time.Second
)

// scrubbing is a run.
type scrubbing struct {
	c     *Checker
	pace  Pace
	state metastore.Scrub
	saved time.Time // when state was
	done  int64     // extents that the run has checked

	measured time.Time // when rate was set; zero: never
	rate     float64   // bytes per second; 0: as fast as requests allow
}

// Scrub reads and checks all stored bytes once, and records damage. It continues a round that was
// interrupted, by this process or another, or begins a round. It reads as slowly as
// Options.ScrubPeriod permits, and while requests are in progress it takes at most a quarter of all
// time. It returns the number of extents that it has checked, and an error, without an end of the
// round, if the bytes or the metadata cannot be read. Bytes that were deleted or replaced before
// they were read are no damage.
func (c *Checker) Scrub(ctx context.Context) (extents int64, err error) {
	x := scrubbing{c: c, pace: c.opt.Pace(), saved: time.Now()}
	if x.state, err = c.meta.Scrub(ctx); err != nil {
		return 0, err
	}
	if !x.state.Running {
		x.state = metastore.Scrub{
			Revision: x.state.Revision, Finished: x.state.Finished,
			Round: x.state.Round + 1, Began: c.meta.Now(), Running: true,
		}
	}
	err = errors.Join(x.run(ctx), x.save(ctx))
	if errors.Is(err, database.ErrNotFound) { // another node goes on
		err = nil
	}
	return x.done, err
}

// run checks extents that the round has not checked yet.
func (x *scrubbing) run(ctx context.Context) error {
	for !x.state.Bodies {
		page, err := x.c.meta.Objects(ctx, x.state.Object, scrubPage)
		if err != nil {
			return err
		}
		x.state.Bodies = len(page) == 0
		if err := x.check(ctx, page); err != nil {
			return err
		}
	}
	for { // many pages may have no inline extent to pause after
		if _, err := x.pace(ctx, 1); err != nil {
			return err
		}
		page, err := x.c.meta.StoredExtents(ctx, x.state.Inline, scrubPage)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			x.state.Running, x.state.Finished = false, x.c.meta.Now()
			return nil
		}
		if err := x.check(ctx, page); err != nil {
			return err
		}
	}
}

// check checks a page of extents.
func (x *scrubbing) check(ctx context.Context, page []metastore.StoredExtent) error {
	for i := range page {
		e, began := &page[i], time.Now()
		due := !e.Garbage && (e.Object == "" || !x.state.Bodies)
		if due {
			if err := x.checkOne(ctx, e); err != nil {
				return err
			}
		}
		if x.state.Bodies {
			x.state.Inline = e.ID()
		} else {
			x.state.Object = e.Object
		}
		if due {
			if err := x.waitAfter(ctx, e, began); err != nil {
				return err
			}
		}
		if time.Since(x.saved) >= saveEvery {
			if err := x.save(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkOne checks an extent.
func (x *scrubbing) checkOne(ctx context.Context, e *metastore.StoredExtent) error {
	if time.Since(x.measured) >= measureEvery {
		if err := x.measure(ctx); err != nil {
			return err
		}
	}
	check := storedCheck{open: x.c.opt.OpenStored, e: &e.Extent, step: x.pace.step(ctx)}
	err := check.all(ctx)
	x.c.counts.scrubbed.Add(check.read)
	if err != nil {
		return err
	}
	if check.bad != 0 {
		err = x.c.recordDamage(ctx, check.damage(e.ID()))
	} else if x.c.damaged.may(e.Content) {
		err = x.c.meta.ForgetDamage(ctx, metastore.Damage{ExtentID: e.ID(), Object: e.Object})
	}
	if err != nil {
		return err
	}
	x.done++
	x.state.Extents++
	x.state.Bytes += e.Size
	return nil
}

// waitAfter waits until the next extent is due after one that was begun at this time.
func (x *scrubbing) waitAfter(ctx context.Context, e *metastore.StoredExtent, began time.Time) error {
	if x.rate == 0 {
		return ctx.Err()
	}
	due := time.Duration(float64(e.Size+extentWeight) / x.rate * float64(time.Second))
	return task.Wait(ctx, due-time.Since(began))
}

// measure sets the rate at which the round ends in time.
func (x *scrubbing) measure(ctx context.Context) error {
	extents, bytes, err := x.c.meta.StoredSize(ctx)
	if err != nil {
		return err
	}
	x.measured, x.rate = time.Now(), 0
	left := float64(bytes-x.state.Bytes) + extentWeight*float64(extents-x.state.Extents)
	end := x.state.Began.Add(x.c.opt.ScrubPeriod / 10 * roundTenths)
	// A clock that was set back must not make the round longer than all of it.
	if t := min(end.Sub(x.c.meta.Now()), x.c.opt.ScrubPeriod); t > 0 {
		x.rate = max(minScrubRate, left/t.Seconds())
	}
	x.c.counts.storedExtents.Store(extents)
	return nil
}

// save saves how far the round is, also after ctx has ended.
func (x *scrubbing) save(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	revision, err := x.c.meta.SaveScrub(ctx, x.state)
	if err == nil {
		x.state.Revision, x.saved = revision, time.Now()
	}
	return err
}
