package integrity

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"sluice/bytestore"
	"sluice/database"
	"sluice/internal/task"
	"sluice/metastore"
)

// DefaultScrubPeriod is the period of Options.ScrubPeriod that is suitable for an instance.
const DefaultScrubPeriod = 30 * 24 * time.Hour

// Metadata is the part of an instance's database that a Checker uses.
type Metadata interface {
	metastore.Store
	database.Properties
	database.Clock
}

// Options are a Checker's settings. Only HealFrom may be nil.
type Options struct {
	// ScrubPeriod is the period in which Run reads and checks all stored bytes once. 0 means that
	// it does not, and lists only damage that reads find.
	ScrubPeriod time.Duration

	// CompareEvery is the interval at which Run compares the objects with the metadata.
	CompareEvery time.Duration

	// OpenStored opens stored bytes, past all caches that can be avoided.
	OpenStored bytestore.OpenFunc

	// HealFrom is a second store, from which Heal repairs damage. nil means that there is none.
	HealFrom HealSource

	// Found is called when damage of a content was recorded that had none. It must be fast and safe
	// for concurrent use.
	Found func(metastore.Damage)

	// Pace returns the pace of a run.
	Pace func() Pace

	// Space returns bytestore.ErrNoSpace, wrapped, if n bytes do not fit.
	Space func(n int64) error

	// Replace stores the bytes of a damaged extent as a new object, makes that the extent's, and
	// the damaged one garbage. It reports whether it did: another process may have been faster.
	Replace func(ctx context.Context, d metastore.Damage, src io.Reader) (bool, error)
}

// Pace begins a background task's next step, of at most most parts. It may wait before that. It
// returns how many parts the step may have, or the error of ctx if that ends.
type Pace func(ctx context.Context, most int) (parts int, err error)

// step returns a function that begins a step of one part.
func (p Pace) step(ctx context.Context) func() error {
	return func() error {
		_, err := p(ctx, 1)
		return err
	}
}

// Checker checks an instance's stored bytes. Its methods may be called concurrently.
type Checker struct {
	meta    Metadata
	bytes   bytestore.Store
	opt     Options
	damaged *damagedContents
	mending chan struct{} // holds an element if Run has to look at damage
	counts  struct{ found, healed, scrubbed, storedExtents atomic.Int64 }
}

// Stats are a Checker's counters since it was created.
type Stats struct {
	Found         int64 // contents for which this process was the first to record damage
	Healed        int64 // extents that were healed
	Scrubbed      int64 // bytes that the scrub has read
	StoredExtents int64 // as the scrub has counted them last; 0: not yet
}

// New returns a Checker.
func New(meta Metadata, bytes bytestore.Store, opt Options) *Checker {
	return &Checker{meta: meta, bytes: bytes, opt: opt, damaged: newDamagedContents(), mending: make(chan struct{}, 1)}
}

// Stats returns the counters. Each is exact, but together they are not a snapshot.
func (c *Checker) Stats() Stats {
	return Stats{
		Found:         c.counts.found.Load(),
		Healed:        c.counts.healed.Load(),
		Scrubbed:      c.counts.scrubbed.Load(),
		StoredExtents: c.counts.storedExtents.Load(),
	}
}

// The first comparison and the first look at the scrub are not at the start, because then a node
// has other things to read.
const (
	firstScrub   = 5 * time.Minute
	firstCompare = 10 * time.Minute
)

// Run scrubs, compares the objects with the metadata, and heals recorded damage, until ctx ends.
// These tasks do not wait for each other. control makes their runs, with waits; a failed run is
// retried at the next interval.
func (c *Checker) Run(ctx context.Context, control *task.Control, waits func(error) bool) {
	var tasks sync.WaitGroup
	control.Define(task.Scrub, waits, c.Scrub) // without a period, too, an operator may start it
	control.Define(task.Compare, waits, c.CompareObjects)
	control.Define(task.Heal, waits, c.Heal)
	if c.opt.ScrubPeriod > 0 {
		tasks.Go(func() { c.scrubRounds(ctx, control) })
		tasks.Go(func() {
			control.Repeat(ctx, min(firstCompare, c.opt.CompareEvery), c.opt.CompareEvery, func() { control.Do(ctx, task.Compare) }, task.Compare)
		})
	}
	tasks.Go(func() {
		c.onDamage(ctx, func() { control.Do(ctx, task.Heal) })
	})
	tasks.Wait()
}

// The pauses of scrubRounds: after a failure, and between two looks at whether a round is due,
// because the database's clock may be set.
const (
	scrubRetry = time.Minute
	scrubLook  = time.Hour
)

// scrubRounds scrubs when a round is due or was interrupted, until ctx ends.
func (c *Checker) scrubRounds(ctx context.Context, control *task.Control) {
	first := min(firstScrub, c.opt.ScrubPeriod/10)
	control.Plan(time.Now().Add(first), task.Scrub)
	for pause := first; task.Wait(ctx, pause) == nil; {
		state, err := c.meta.Scrub(ctx)
		if pause = scrubRetry; err != nil {
			continue // the tasks that must read the database report why
		}
		if due := state.Began.Add(c.opt.ScrubPeriod).Sub(c.meta.Now()); !state.Running && due > 0 {
			control.Plan(time.Now().Add(due), task.Scrub)
			pause = min(due, scrubLook, c.opt.ScrubPeriod)
			continue
		}
		control.Do(ctx, task.Scrub)
	}
}

// healEvery is the time between two looks at damage that could not be healed, which read all of it.
// healDelay is how long a look waits after damage was recorded, because there may be more.
const (
	healEvery = 10 * time.Minute
	healDelay = 100 * time.Millisecond
)

// onDamage calls work at the start, after damage was recorded, and every ten minutes, while there
// is damage, until ctx ends.
func (c *Checker) onDamage(ctx context.Context, work func()) {
	for {
		// Usually there is none, and then it is no run.
		if some, err := c.meta.Damages(ctx, metastore.ExtentID{}, 1); err != nil || len(some) > 0 {
			work()
		}
		timer := time.NewTimer(healEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-c.mending:
			timer.Stop()
			if task.Wait(ctx, healDelay) != nil {
				return
			}
		}
	}
}
