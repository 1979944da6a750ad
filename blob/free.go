package blob

import (
	"context"
	"errors"
	"slices"
	"sort"
	"time"

	"sluice/bytestore"
	"sluice/database"
	"sluice/internal/task"
	"sluice/metastore"
)

// freeTimeout limits the time that a delete spends on freeing before it returns. FreeGarbage does
// the rest.
const freeTimeout = 2 * time.Second

// freeNow frees a content that has just become garbage, so that a delete has freed its space when
// it returns. If there are readers, a backup that holds garbage, a grace period or a failure,
// FreeGarbage does it later: the delete itself is done.
func (s *Service) freeNow(ctx context.Context, content metastore.ContentID) {
	defer s.garbageArose()
	if _, held, err := s.heldGarbage(ctx); held || err != nil {
		return
	}
	ids := []metastore.ContentID{content}
	if s.opt.GarbageGrace > 0 || len(s.pins.claim(ids, s.meta.Now())) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), freeTimeout)
	defer cancel()
	var failed task.Failures // ignored: a failed content is still garbage and is retried
	for more := true; more && ctx.Err() == nil; {
		var err error
		if more, err = s.freePage(ctx, ids, pageContents, &failed); err != nil {
			return
		}
	}
}

// heldGarbage returns the time from which on garbage is held for a backup, or false if none is.
// None is held while space is short.
func (s *Service) heldGarbage(ctx context.Context) (since time.Time, held bool, err error) {
	since, held, err = s.meta.GarbageHeld(ctx)
	if held && s.spaceIsShort() {
		return time.Time{}, false, nil
	}
	s.holds.Store(held)
	return since, held, err
}

// withRelief runs a write that removes something. If the disk is so full that not even the removal
// can be recorded, it releases the space that was reserved for that purpose and retries.
func (s *Service) withRelief(write func() error) error {
	err := write()
	if errors.Is(err, database.ErrNoSpace) && s.opt.Relieve() {
		err = write()
	}
	return err
}

// The greatest size of a garbage page. A page is freed before the next one is read, so its size
// bounds how long later contents wait.
const (
	pageContents = 256
	extentsShare = 4 // extents of large contents for each content that a page may have
	minExtents   = 4 // of each large content
)

// FreeGarbage deletes the bytes of all contents that have been garbage for the grace period, have
// no readers and are not held for a backup. It continues after failures, and returns their number
// with a few of them. A content that could not be freed is retried after a pause that grows from
// one minute to 16 minutes, so that it does not delay others. FreeGarbage stops if the byte store
// deletes nothing.
func (s *Service) FreeGarbage(ctx context.Context) error {
	_, err := s.freeGarbage(ctx)
	return err
}

// freeGarbage is FreeGarbage, and returns the number of contents that were freed meanwhile,
// including those that a delete freed.
func (s *Service) freeGarbage(ctx context.Context) (contents int64, err error) {
	before := s.counts.freedContents.Load()
	err = s.freeAll(ctx)
	return s.counts.freedContents.Load() - before, err
}

func (s *Service) freeAll(ctx context.Context) error {
	var failed task.Failures
	pace := s.newPacer()
	pace.urgent = true
	for more := true; more; {
		var err error
		if more, err = s.freeDue(ctx, pace, &failed); err != nil {
			return errors.Join(failed.Err(), err)
		}
	}
	return failed.Err()
}

// freeDue frees the small contents that are due, and a batch of each large one. It reports whether
// there is more to free in the large ones.
func (s *Service) freeDue(ctx context.Context, pace *pacer, failed *task.Failures) (more bool, err error) {
	defer s.cutReaders()
	for after := (metastore.GarbageContent{}); ; {
		size, err := pace.next(ctx, pageContents)
		if err != nil {
			return false, err
		}
		due, err := s.meta.GarbageContents(ctx, s.opt.GarbageGrace, after, size)
		if err != nil {
			return false, err
		}
		since, held, err := s.heldGarbage(ctx)
		if err != nil {
			return false, err
		}
		if held {
			due = due[:sort.Search(len(due), func(i int) bool { return !due[i].Since.Before(since) })]
		}
		ids := make([]metastore.ContentID, len(due))
		for i, g := range due {
			ids[i] = g.Content
		}
		now := s.meta.Now()
		moreHere, err := s.freePage(ctx, s.pins.claim(s.retries.due(ids, now), now), size, failed)
		if err != nil {
			return false, err
		}
		more = more || moreHere
		if len(due) < size {
			return more, nil
		}
		after = due[len(due)-1]
	}
}

// readAfterDelete is how long a content can be read after it was deleted, if a reader has it open.
const readAfterDelete = 24 * time.Hour

// cutReaders cuts the readers that have retained garbage for too long, or all of them if the store
// is out of space.
func (s *Service) cutReaders() {
	if !s.pins.waiting() {
		return
	}
	since := s.meta.Now().Add(-readAfterDelete)
	if errors.Is(s.opt.Space(0), bytestore.ErrNoSpace) {
		since = time.Time{}
	}
	for _, c := range s.pins.overdue(since) {
		c.cut()
	}
}

// freePage frees contents that were claimed: small ones completely, and from each other one a batch
// as large as a page of this size may be. It deletes all of their objects together. It reports
// whether more of them can be freed now. An error means that nothing can be freed now.
func (s *Service) freePage(ctx context.Context, ids []metastore.ContentID, size int, failed *task.Failures) (more bool, err error) {
	if len(ids) == 0 {
		return false, ctx.Err()
	}
	if err := s.opt.MayDelete(ctx); err != nil {
		return false, err
	}
	small, err := s.meta.GarbageObjects(ctx, ids)
	if err != nil {
		return false, err
	}
	var names []bytestore.Name
	for _, objects := range small {
		for _, name := range objects {
			names = append(names, bytestore.Name(name))
		}
	}
	batches, err := s.extentBatches(ctx, ids, small, size)
	if err != nil {
		return false, err
	}
	for _, b := range batches {
		names = append(names, objectsOf(b.extents)...)
	}
	left := s.deleteObjects(ctx, names)
	for _, err := range left {
		failed.Add(err)
	}
	failed.Add(s.dropSmall(ctx, small, left))
	for _, b := range batches {
		moreHere, err := s.dropBatch(ctx, b, left)
		failed.Add(err)
		more = more || moreHere
	}
	if len(names) > 0 && len(left) == len(names) && errors.Is(left, bytestore.ErrOverloaded) {
		return false, errors.New("the byte store deletes nothing at the moment")
	}
	return more, ctx.Err()
}

// dropSmall drops the small contents without remaining objects.
func (s *Service) dropSmall(ctx context.Context, small map[metastore.ContentID][]string, left bytestore.Undeleted) error {
	gone := make([]metastore.ContentID, 0, len(small))
	for id, objects := range small {
		if slices.ContainsFunc(objects, func(name string) bool { return left[bytestore.Name(name)] != nil }) {
			s.postpone(ctx, id)
		} else {
			gone = append(gone, id)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	s.retries.remove(gone)
	err := s.withRelief(func() error { return s.meta.DropContents(ctx, gone) })
	if err == nil {
		s.counts.freedContents.Add(int64(len(gone)))
	}
	return err
}

// extentBatch is how much of one large content is freed at a time.
type extentBatch struct {
	content metastore.ContentID
	from    metastore.Position // extents before it could not be freed; zero if there are none
	extents []metastore.Extent
	last    bool // no extents follow
}

// extentBatches returns the next batch of each content that is not small.
func (s *Service) extentBatches(ctx context.Context, ids []metastore.ContentID, small map[metastore.ContentID][]string, size int) ([]extentBatch, error) {
	limit := max(minExtents, extentsShare*size/max(1, len(ids)-len(small)))
	var list []extentBatch
	for _, id := range ids {
		if _, ok := small[id]; ok {
			continue
		}
		from := s.retries.from(id)
		extents, err := s.meta.Extents(ctx, id, from, limit)
		if err != nil {
			return nil, err
		}
		list = append(list, extentBatch{id, from, extents, len(extents) < limit})
	}
	return list, nil
}

// dropBatch drops a batch's extents if their objects were deleted and, after the last batch, the
// content. If objects are left, it continues after them, so that they do not delay the rest. It
// reports whether more of it can be freed now.
func (s *Service) dropBatch(ctx context.Context, b extentBatch, left bytestore.Undeleted) (more bool, err error) {
	var done []metastore.Position
	for i := range b.extents {
		if e := &b.extents[i]; left[bytestore.Name(e.Object)] == nil {
			done = append(done, metastore.Position{Part: e.Part, Offset: e.Offset})
		}
	}
	if len(done) > 0 {
		if err := s.withRelief(func() error { return s.meta.DropExtents(ctx, b.content, done) }); err != nil {
			s.postpone(ctx, b.content)
			return false, err
		}
	}
	whole := b.from == metastore.Position{} && len(done) == len(b.extents)
	switch {
	case !b.last:
		if !whole {
			end := b.extents[len(b.extents)-1]
			s.retries.continueFrom(b.content, metastore.Position{Part: end.Part, Offset: end.Offset + end.Size})
		}
		return true, nil
	case whole:
		s.retries.remove([]metastore.ContentID{b.content})
		err := s.withRelief(func() error { return s.meta.DropContent(ctx, b.content) })
		if err != nil {
			s.postpone(ctx, b.content)
			return false, err
		}
		s.counts.freedContents.Add(1)
		return false, nil
	default:
		s.postpone(ctx, b.content)
		return false, nil
	}
}

// postpone delays the next attempt to free a content, unless the attempt was interrupted.
func (s *Service) postpone(ctx context.Context, id metastore.ContentID) {
	if ctx.Err() == nil {
		s.retries.postpone(id, s.meta.Now())
	}
}
