package blob

import (
	"context"
	"errors"
	"sync"
	"time"

	"sluice/internal/task"
	"sluice/metastore"
)

// Purge removes what has expired: idle uploads, expired blobs, and records after their retention.
func (s *Service) Purge(ctx context.Context) error {
	_, err := s.purge(ctx)
	return err
}

// purge is Purge, and returns the number of rows that it handled.
func (s *Service) purge(ctx context.Context) (rows int64, err error) {
	const batch = 500
	pace := s.newPacer()
	for {
		size, err := pace.next(ctx, batch)
		if err != nil {
			return rows, err
		}
		n, err := s.meta.Purge(ctx, size)
		rows += int64(n)
		if err != nil || n == 0 {
			return rows, err
		}
	}
}

// The times of Run. It waits for garbageDelay after garbage arose, so that a stream of overwrites
// costs a few listings of garbage per second. Orphans are rare, and listing all objects is
// expensive.
const (
	garbageDelay = 100 * time.Millisecond
	firstSweep   = 5 * time.Minute
)

// Run frees garbage soon after it arises, purges every Options.PurgeEvery, sweeps orphans after
// five minutes and then every Options.SweepEvery, and scrubs, until ctx ends. It compares the
// objects with the metadata as often as it sweeps, and heals what is recorded as damaged. These
// tasks do not wait for each other. While requests are in progress they work in small steps with
// pauses between them. Each run is passed to report unless ctx has ended or the Fence waits; what
// failed is retried at the next interval. While database.Clock has a DeletionErr nothing is deleted
// because of its age; garbage that needs no grace period is still freed.
func (s *Service) Run(ctx context.Context, report task.Report) {
	interrupted := func(err error) bool { return ctx.Err() != nil || errors.Is(err, ErrFenceWaits) }
	do := func(name task.Name, work func(context.Context) (int64, error)) {
		task.Do(name, report, func() (int64, error) { return work(ctx) }, interrupted)
	}
	// Deletions that depend on the age of something wait while the time is uncertain.
	doByAge := func(name task.Name, work func(context.Context) (int64, error)) {
		if s.meta.DeletionErr() == nil {
			do(name, work)
		}
	}
	free := doByAge
	if s.opt.GarbageGrace == 0 {
		free = do
	}
	var tasks sync.WaitGroup
	tasks.Go(func() {
		s.onGarbage(ctx, func() { free(task.FreeGarbage, s.freeGarbage) })
	})
	tasks.Go(func() {
		repeat(ctx, s.opt.PurgeEvery, s.opt.PurgeEvery, func() {
			doByAge(task.Purge, s.purge)
			do(task.RestoreReserve, func(context.Context) (int64, error) { return 0, s.opt.Restore() })
			s.FreeSoon()
		})
	})
	tasks.Go(func() {
		repeat(ctx, min(firstSweep, s.opt.SweepEvery), s.opt.SweepEvery, func() {
			doByAge(task.Sweep, func(ctx context.Context) (int64, error) {
				swept, err := s.SweepOrphans(ctx)
				return int64(swept.Deleted), err
			})
		})
	})
	if s.opt.ScrubPeriod > 0 {
		tasks.Go(func() {
			s.scrubRounds(ctx, func() { do(task.Scrub, s.Scrub) })
		})
		tasks.Go(func() {
			repeat(ctx, min(2*firstSweep, s.opt.SweepEvery), s.opt.SweepEvery, func() { do(task.Compare, s.CompareObjects) })
		})
	}
	tasks.Go(func() {
		s.onDamage(ctx, func() { do(task.Heal, s.Heal) })
	})
	tasks.Wait()
}

// scrubRetry is how long the scrub waits after a failure.
const scrubRetry = time.Minute

// scrubRounds calls work when a round is due or was interrupted, until ctx ends. The
// first time is not at the start, because then a node has other things to read.
func (s *Service) scrubRounds(ctx context.Context, work func()) {
	for pause := min(firstSweep, s.opt.ScrubPeriod/10); wait(ctx, pause) == nil; {
		state, err := s.meta.Scrub(ctx)
		if pause = scrubRetry; err != nil {
			continue // the tasks that must read the database report why
		}
		if due := state.Began.Add(s.opt.ScrubPeriod).Sub(s.meta.Now()); !state.Running && due > 0 {
			pause = min(due, scrubLook, s.opt.ScrubPeriod)
			continue
		}
		work()
	}
}

// scrubLook is the longest time between two looks at whether a round is due, because the database's
// clock may be set.
const scrubLook = time.Hour

// healEvery is the time between two looks at damage that could not be healed. They read all of it.
const healEvery = 10 * time.Minute

// onDamage calls work at the start, after damage was recorded, and every ten minutes, while there
// is damage, until ctx ends.
func (s *Service) onDamage(ctx context.Context, work func()) {
	for {
		// Usually there is none, and then it is no run.
		if some, err := s.meta.Damages(ctx, metastore.ExtentID{}, 1); err != nil || len(some) > 0 {
			work()
		}
		timer := time.NewTimer(healEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-s.mending:
			timer.Stop()
			if wait(ctx, garbageDelay) != nil {
				return
			}
		}
	}
}

// onGarbage calls work at the start, and then shortly after each time that garbage may have arisen.
func (s *Service) onGarbage(ctx context.Context, work func()) {
	for {
		work()
		select {
		case <-ctx.Done():
			return
		case <-s.wakeup:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(garbageDelay):
		}
	}
}

// repeat calls work after the first duration and then after each period, until ctx ends.
func repeat(ctx context.Context, first, period time.Duration, work func()) {
	timer := time.NewTimer(first)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		work()
		timer.Reset(period)
	}
}
