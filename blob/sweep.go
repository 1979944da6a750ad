package blob

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sluice/bytestore"
	"sluice/metastore"
)

// OrphanAge is the age at which an object that nothing refers to is taken for
// an orphan. It is four times what a commit accepts, so that a sweep and a
// commit never meet.
const OrphanAge = 4 * metastore.MaxExtentAge

// The brake of the orphan sweep: more than brakeCount orphans that are also
// more than one in brakeShare of the objects listed are not deleted unasked.
const (
	brakeCount = 1_000
	brakeShare = 10
)

// Sweep tells what an orphan sweep found.
type Sweep struct {
	Listed  int // objects
	Orphans int // of them, old enough and referred to by nothing
	Deleted int // of the orphans
}

// SweepOrphans deletes the objects that nothing refers to and that are older
// than OrphanAge: what crashes and failed clean-ups leave behind. It first
// counts, and stops with ErrLargeSweep when so much would go that the metadata
// is more likely to be wrong than the objects. Then it deletes at most as many as
// it counted, and stops likewise when it finds too many more. It goes on past
// objects that cannot be deleted, and returns these errors counted and sampled.
func (s *Service) SweepOrphans(ctx context.Context) (Sweep, error) {
	var found Sweep
	err := s.eachOrphan(ctx, &found.Listed, func(keys []bytestore.Key) error {
		found.Orphans += len(keys)
		return nil
	})
	if err != nil || found.Orphans == 0 {
		return found, err
	}
	if tooMany(found.Orphans, found.Listed) && !s.largeSweep.CompareAndSwap(true, false) {
		return found, fmt.Errorf("%w: %d of %d objects", ErrLargeSweep, found.Orphans, found.Listed)
	}
	var failed failures
	listed, seen, tried := 0, 0, 0
	err = s.eachOrphan(ctx, &listed, func(keys []bytestore.Key) error {
		seen += len(keys)
		if seen > found.Orphans && tooMany(seen, found.Listed) {
			return fmt.Errorf("%w: %d of %d objects, where %d were counted just before", ErrLargeSweep, seen, found.Listed, found.Orphans)
		}
		if err := s.opt.MayDelete(ctx); err != nil {
			return err
		}
		keys = keys[:min(len(keys), found.Orphans-tried)]
		tried += len(keys)
		left := s.deleteObjects(ctx, keys)
		found.Deleted += len(keys) - len(left)
		for _, err := range left {
			failed.add(err)
		}
		return ctx.Err()
	})
	return found, errors.Join(err, failed.err())
}

// tooMany is the brake: it reports whether so many orphans are more than may be
// deleted unasked.
func tooMany(orphans, listed int) bool {
	return orphans > brakeCount && orphans > listed/brakeShare
}

// eachOrphan lists all objects and calls fn for the orphans, a page at a time.
func (s *Service) eachOrphan(ctx context.Context, listed *int, fn func([]bytestore.Key) error) error {
	const page = 1_000
	if err := s.meta.DeletionErr(); err != nil {
		return err
	}
	limit := s.meta.Now().Add(-OrphanAge)
	old := make([]string, 0, page)
	check := func() error {
		orphans, err := s.meta.Unreferenced(ctx, old)
		if err != nil {
			return err
		}
		keys := make([]bytestore.Key, len(orphans))
		for i, key := range orphans {
			keys[i] = bytestore.Key(key)
		}
		old = old[:0]
		if len(keys) == 0 {
			return nil
		}
		return fn(keys)
	}
	err := s.bytes.List(ctx, "", func(o bytestore.Object) error {
		*listed++
		created, ok := o.Key.Created()
		if !ok || created.After(limit) {
			return nil
		}
		if old = append(old, string(o.Key)); len(old) < page {
			return nil
		}
		return check()
	})
	if err != nil || len(old) == 0 {
		return err
	}
	return check()
}

// Purge ends what has run out: idle uploads, expired blobs, and what is no
// longer remembered.
func (s *Service) Purge(ctx context.Context) error {
	const batch = 500
	for {
		n, err := s.meta.Purge(ctx, batch)
		if err != nil || n == 0 {
			return err
		}
	}
}

// How often Run works. Garbage is gathered for a moment, so that a stream of
// overwrites costs a few looks a second; orphans are rare and listing is costly.
const (
	gatherFor  = 100 * time.Millisecond
	purgeEvery = time.Minute
	firstSweep = 5 * time.Minute
	sweepEvery = 6 * time.Hour
)

// Run frees garbage soon after it arises, purges every minute and sweeps orphans
// after five minutes and then every six hours, until ctx ends. None of these
// waits for another. Failures go to report, and the work is tried again in its
// turn. Nothing is deleted for its age while metastore.Clock has a DeletionErr; what
// needs no grace period is freed all the same.
func (s *Service) Run(ctx context.Context, report func(task string, err error)) {
	do := func(task string, work func(context.Context) error) {
		if err := work(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, ErrFenceWaits) {
			report(task, err)
		}
	}
	// What depends on the time waits while it is not certain.
	doByAge := func(task string, work func(context.Context) error) {
		if s.meta.DeletionErr() == nil {
			do(task, work)
		}
	}
	free := doByAge
	if s.opt.GarbageGrace == 0 {
		free = do
	}
	var tasks sync.WaitGroup
	tasks.Go(func() {
		s.onGarbage(ctx, func() { free("free garbage", s.FreeGarbage) })
	})
	tasks.Go(func() {
		repeat(ctx, purgeEvery, purgeEvery, func() {
			doByAge("purge", s.Purge)
			do("set room aside", func(context.Context) error { return s.opt.Restore() })
			s.wake()
		})
	})
	tasks.Go(func() {
		repeat(ctx, firstSweep, sweepEvery, func() {
			doByAge("sweep orphans", func(ctx context.Context) error {
				_, err := s.SweepOrphans(ctx)
				return err
			})
		})
	})
	tasks.Wait()
}

// onGarbage works once at the start, and then a moment after each time that
// there may be garbage.
func (s *Service) onGarbage(ctx context.Context, work func()) {
	for {
		work()
		select {
		case <-ctx.Done():
			return
		case <-s.kick:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(gatherFor):
		}
	}
}

// repeat works first after a while, and then after each period.
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
