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
// five minutes and then every Options.SweepEvery, and checks what is stored (see
// integrity.Checker), until ctx ends. These tasks do not wait for each other. While requests are in
// progress they work in small steps with pauses between them. Each run is passed to report unless
// ctx has ended or the Fence waits; a failed step is retried at the next interval. While
// database.Clock has a DeletionErr nothing is deleted because of its age; garbage that needs no
// grace period is still freed.
func (s *Service) Run(ctx context.Context, report task.Report) {
	interrupted := func(err error) bool { return ctx.Err() != nil || errors.Is(err, history.ErrFenceWaits) }
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
		task.Repeat(ctx, s.opt.PurgeEvery, s.opt.PurgeEvery, func() {
			doByAge(task.Purge, s.purge)
			do(task.RestoreReserve, func(context.Context) (int64, error) { return 0, s.opt.Restore() })
			s.FreeSoon()
		})
	})
	tasks.Go(func() {
		task.Repeat(ctx, min(firstSweep, s.opt.SweepEvery), s.opt.SweepEvery, func() {
			doByAge(task.Sweep, func(ctx context.Context) (int64, error) {
				swept, err := s.SweepOrphans(ctx)
				return int64(swept.Deleted), err
			})
		})
	})
	tasks.Go(func() { s.Checker.Run(ctx, do) })
	tasks.Wait()
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
