package blob

import (
	"context"
	"errors"
	"sync"
	"time"

	"sluice/history"
	"sluice/internal/task"
)

// Purge removes what has expired: idle uploads, expired blobs, and records after their retention.
func (s *Service) Purge(ctx context.Context) error {
	_, err := s.purge(ctx)
	return err
}

// purge is Purge, and returns the number of rows that it handled.
func (s *Service) purge(ctx context.Context) (rows int64, err error) {
	return s.purgeBy(ctx, s.meta.Purge, s.opt.PurgeMore)
}

// purgeBy repeats steps, which handle a number of rows at most, each until it has handled all.
func (s *Service) purgeBy(ctx context.Context, steps ...func(context.Context, int) (int, error)) (rows int64, err error) {
	const batch = 500
	pace := s.newPacer()
	for len(steps) > 0 {
		size, err := pace.next(ctx, batch)
		if err != nil {
			return rows, err
		}
		n, err := steps[0](ctx, size)
		if rows += int64(n); err != nil {
			return rows, err
		}
		if n == 0 {
			steps = steps[1:]
		}
	}
	return rows, nil
}

// Run's times. It waits for garbageDelay after garbage arose, so that a stream of overwrites
// costs a few listings of garbage per second. Orphans are rare, and listing all objects is
// expensive.
const (
	garbageDelay = 100 * time.Millisecond
	firstSweep   = 5 * time.Minute
)

// Run frees garbage soon after it arises, purges rows, versions and changes and applies rules every
// Options.PurgeEvery, sweeps orphans after five minutes and then every Options.SweepEvery, and
// checks stored bytes (see integrity.Checker), until ctx ends. These tasks do not wait for each
// other. While requests are in progress they work in small steps with pauses between them. control
// makes their runs; while the Fence waits, they are not made. A failed step is retried at the next
// interval. While database.Clock has a DeletionErr nothing is deleted because of its age; garbage
// that needs no grace period is still freed.
func (s *Service) Run(ctx context.Context, control *task.Control) {
	waits := func(err error) bool { return errors.Is(err, history.ErrFenceWaits) || errors.Is(err, errAge) }
	free := s.byAge(s.freeGarbage)
	if s.opt.GarbageGrace == 0 {
		free = s.freeGarbage
	}
	control.Define(task.FreeGarbage, waits, free)
	control.Define(task.Purge, waits, s.byAge(s.purge))
	control.Define(task.Versions, waits, s.byAge(s.purgeVersions))
	control.Define(task.Rules, waits, s.byAge(s.applyRules))
	control.Define(task.Changes, waits, s.byAge(s.purgeChanges))
	control.Define(task.RestoreReserve, waits, func(context.Context) (int64, error) { return 0, s.opt.Restore() })
	control.Define(task.Sweep, waits, s.byAge(func(ctx context.Context) (int64, error) {
		swept, err := s.SweepOrphans(ctx)
		return int64(swept.Deleted), err
	}))
	var tasks sync.WaitGroup
	tasks.Go(func() {
		s.onGarbage(ctx, func() { control.Do(ctx, task.FreeGarbage) })
	})
	tasks.Go(func() {
		control.Repeat(ctx, s.opt.PurgeEvery, s.opt.PurgeEvery, func() {
			control.Do(ctx, task.Versions)
			control.Do(ctx, task.Purge)
			control.Do(ctx, task.Changes)
			control.Do(ctx, task.RestoreReserve)
			s.FreeSoon()
		}, task.Versions, task.Purge, task.Changes, task.RestoreReserve)
	})
	tasks.Go(func() {
		control.Repeat(ctx, s.opt.PurgeEvery, s.opt.PurgeEvery, func() {
			for left := true; left && ctx.Err() == nil; left = s.rulesLeft.Swap(false) {
				control.Do(ctx, task.Rules)
			}
		}, task.Rules)
	})
	tasks.Go(func() {
		control.Repeat(ctx, min(firstSweep, s.opt.SweepEvery), s.opt.SweepEvery, func() { control.Do(ctx, task.Sweep) }, task.Sweep)
	})
	tasks.Go(func() { s.Checker.Run(ctx, control, waits) })
	tasks.Wait()
}

// errAge means that the time is too uncertain to begin a task that deletes because of it.
var errAge = errors.New("deletions that depend on the age of something wait")

// byAge returns work that waits while the time is uncertain.
func (s *Service) byAge(work func(context.Context) (int64, error)) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) {
		if s.meta.DeletionErr() != nil {
			return 0, errAge
		}
		return work(ctx)
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
		if task.Wait(ctx, garbageDelay) != nil {
			return
		}
	}
}
