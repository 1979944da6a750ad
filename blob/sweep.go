package blob

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"sluice/bytestore"
	"sluice/database"
	"sluice/internal/task"
	"sluice/metastore"
)

// OrphanAge is the age from which an object that nothing refers to is an orphan. It is four times
// the greatest age that a commit accepts, so a sweep never deletes an object that is about to be
// committed.
const OrphanAge time.Duration = 4 * metastore.MaxExtentAge

// A sweep stops if there are more than brakeCount orphans and more than one for each brakeShare
// listed objects.
const (
	brakeCount = 1_000
	brakeShare = 10
)

// Sweep is an orphan sweep's result.
type Sweep struct {
	Listed  int // objects listed
	Orphans int // objects that are old enough and that nothing refers to
	Deleted int // orphans deleted
}

// SweepOrphans deletes the objects that nothing refers to and that are older than OrphanAge, which
// remain after crashes and failed clean-ups, except those that Options.KeptBefore keeps. It first
// counts them, and returns ErrLargeSweep if there are so many that an error in the metadata is more
// likely. Then it deletes at most as many as it counted, and returns ErrLargeSweep if it finds too
// many more. It continues after objects that cannot be deleted, and returns the number of these
// failures with a few of them.
func (s *Service) SweepOrphans(ctx context.Context) (Sweep, error) {
	var found Sweep
	if err := s.opt.MayDelete(ctx); err != nil {
		return found, err
	}
	pace := s.newPacer()
	err := s.eachOrphan(ctx, pace, &found.Listed, func(names []bytestore.Name) error {
		found.Orphans += len(names)
		return nil
	})
	if err != nil || found.Orphans == 0 {
		return found, err
	}
	if tooMany(found.Orphans, found.Listed) {
		if permitted, err := s.takePermit(ctx); err != nil || !permitted {
			return found, errors.Join(err, fmt.Errorf("%w: %d of %d objects; sluice resume sweep permits it once", ErrLargeSweep, found.Orphans, found.Listed))
		}
	}
	var failed task.Failures
	listed, seen, tried := 0, 0, 0
	err = s.eachOrphan(ctx, pace, &listed, func(names []bytestore.Name) error {
		seen += len(names)
		if seen > found.Orphans && tooMany(seen, found.Listed) {
			return fmt.Errorf("%w: %d of %d objects, after %d were counted just before", ErrLargeSweep, seen, found.Listed, found.Orphans)
		}
		if err := s.opt.MayDelete(ctx); err != nil {
			return err
		}
		names = names[:min(len(names), found.Orphans-tried)]
		tried += len(names)
		left := s.deleteObjects(ctx, names)
		found.Deleted += len(names) - len(left)
		for _, err := range left {
			failed.Add(err)
		}
		return ctx.Err()
	})
	return found, errors.Join(err, failed.Err())
}

// LargeSweepProperty is the property with the Unix time at which an operator has permitted a large
// sweep. It is empty once a sweep has used that.
const LargeSweepProperty = "large-sweep"

// permitLife is how long a large sweep is permitted, for a sweep that runs every few hours.
const permitLife = 24 * time.Hour

// takePermit reports whether this sweep may be a large one. It uses up the permission before
// anything is deleted, so one permission never serves two sweeps.
func (s *Service) takePermit(ctx context.Context) (bool, error) {
	text, err := s.meta.Property(ctx, LargeSweepProperty)
	if err != nil || text == "" {
		return false, ignoreNotFound(err)
	}
	at, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return false, fmt.Errorf("the property %s: %w", LargeSweepProperty, err)
	}
	if s.meta.Now().Sub(time.Unix(at, 0)) > permitLife {
		return false, nil
	}
	err = s.meta.ReplaceProperty(ctx, LargeSweepProperty, text, "")
	return err == nil, ignoreNotFound(err)
}

// ignoreNotFound returns err unless it is database.ErrNotFound.
func ignoreNotFound(err error) error {
	if errors.Is(err, database.ErrNotFound) {
		return nil
	}
	return err
}

// tooMany reports whether so many orphans must not be deleted without a permission.
func tooMany(orphans, listed int) bool {
	return orphans > brakeCount && orphans > listed/brakeShare
}

// eachOrphan lists all objects, a page at a time, and calls fn with each page's orphans.
func (s *Service) eachOrphan(ctx context.Context, pace *pacer, listed *int, fn func([]bytestore.Name) error) error {
	const page = 1_000
	if err := s.meta.DeletionErr(); err != nil {
		return err
	}
	limit, kept := s.meta.Now().Add(-OrphanAge), s.opt.KeptBefore()
	left := 0 // in this page
	old := make([]string, 0, page)
	err := s.bytes.List(ctx, "", func(o bytestore.Object) (err error) {
		if left == 0 {
			if err := s.checkOrphans(ctx, old, fn); err != nil {
				return err
			}
			old = old[:0]
			if left, err = pace.next(ctx, page); err != nil {
				return err
			}
		}
		left--
		*listed++
		if created, ok := o.Name.Created(); ok && !created.After(limit) && !created.Before(kept) {
			old = append(old, string(o.Name))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.checkOrphans(ctx, old, fn)
}

// checkOrphans calls fn with the names that nothing refers to, unless there are none.
func (s *Service) checkOrphans(ctx context.Context, old []string, fn func([]bytestore.Name) error) error {
	if len(old) == 0 {
		return nil
	}
	orphans, err := s.meta.Unreferenced(ctx, old)
	if err != nil || len(orphans) == 0 {
		return err
	}
	names := make([]bytestore.Name, len(orphans))
	for i, name := range orphans {
		names[i] = bytestore.Name(name)
	}
	return fn(names)
}
