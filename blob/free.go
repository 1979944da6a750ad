package blob

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"sluice/bytestore"
	"sluice/metastore"
)

// freeNow bounds the time that a delete spends on freeing before it answers;
// FreeGarbage does the rest.
const freeNow = 2 * time.Second

// freeSoon frees a content that has just become garbage, so that a delete gives
// its space back before it is answered. A reader, a grace period or a failure
// leaves the work to FreeGarbage: the delete itself is done.
func (s *Service) freeSoon(ctx context.Context, content metastore.ContentID) {
	defer s.gather()
	ids := []metastore.ContentID{content}
	if s.opt.GarbageGrace > 0 || len(s.pins.claim(ids, s.meta.Now())) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), freeNow)
	defer cancel()
	var failed failures // what failed is still garbage, and tried again
	for more := true; more && ctx.Err() == nil; {
		var err error
		if more, err = s.freePage(ctx, ids, &failed); err != nil {
			return
		}
	}
}

// gather asks Run to look for new garbage. What stays for a grace period is found
// when it is due: until then each look would pass all of it.
func (s *Service) gather() {
	if s.opt.GarbageGrace == 0 {
		s.wake()
	}
}

// wake asks Run to look for garbage now.
func (s *Service) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// relieved runs a write that takes something away. On a disk that is so full
// that not even this can be written down it gives up the room that was set
// aside, and tries again.
func (s *Service) relieved(write func() error) error {
	err := write()
	if errors.Is(err, metastore.ErrNoSpace) && s.opt.Relieve() {
		err = write()
	}
	return err
}

// The shares of a page of garbage. A page is done before the next one is looked
// at, so what it may take is what those behind it wait for at most.
const (
	contentsAtOnce = 256
	extentsAtOnce  = 1_024 // of the large contents together, of which each gets some
	leastExtents   = 4     // of each
)

// FreeGarbage deletes the bytes of all contents that have been garbage for the
// grace period and that nobody reads. It goes on past failures, which it returns
// counted and sampled; what failed is tried again after a pause that grows from
// a minute to a quarter of an hour, so that it keeps nothing else waiting. When
// the store does not delete anything it stops.
func (s *Service) FreeGarbage(ctx context.Context) error {
	var failed failures
	for more := true; more; {
		var err error
		if more, err = s.freeRound(ctx, &failed); err != nil {
			return errors.Join(failed.err(), err)
		}
	}
	return failed.err()
}

// freeRound frees the small contents that are due, and a share of each large
// one. It reports whether more of these are left for the next round.
func (s *Service) freeRound(ctx context.Context, failed *failures) (more bool, err error) {
	defer s.cutReaders()
	for after := (metastore.GarbageContent{}); ; {
		due, err := s.meta.GarbageContents(ctx, s.opt.GarbageGrace, after, contentsAtOnce)
		if err != nil {
			return false, err
		}
		ids := make([]metastore.ContentID, len(due))
		for i, g := range due {
			ids[i] = g.Content
		}
		now := s.meta.Now()
		further, err := s.freePage(ctx, s.pins.claim(s.unfreeable.without(ids, now), now), failed)
		if err != nil {
			return false, err
		}
		more = more || further
		if len(due) < contentsAtOnce {
			return more, nil
		}
		after = due[len(due)-1]
	}
}

// readAfterDelete is how long a content may be read after it was deleted, where
// a reader keeps it.
const readAfterDelete = 24 * time.Hour

// cutReaders ends the replies that keep garbage for too long, or while there is
// no room.
func (s *Service) cutReaders() {
	if !s.pins.waited() {
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

// freePage frees contents that were claimed: of the small ones all, of each of
// the others a share. It deletes their objects together. It reports whether
// there is more of them that can be freed now. An error means that nothing can
// be freed now.
func (s *Service) freePage(ctx context.Context, ids []metastore.ContentID, failed *failures) (more bool, err error) {
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
	var keys []bytestore.Key
	for _, objects := range small {
		for _, key := range objects {
			keys = append(keys, bytestore.Key(key))
		}
	}
	shares, err := s.shares(ctx, ids, small)
	if err != nil {
		return false, err
	}
	for _, share := range shares {
		keys = append(keys, objectsOf(share.extents)...)
	}
	left := s.deleteObjects(ctx, keys)
	for _, err := range left {
		failed.add(err)
	}
	failed.add(s.dropSmall(ctx, small, left))
	for _, share := range shares {
		further, err := s.dropShare(ctx, share, left)
		failed.add(err)
		more = more || further
	}
	if len(keys) > 0 && len(left) == len(keys) && errors.Is(left, bytestore.ErrOverloaded) {
		return false, errors.New("the store deletes nothing now")
	}
	return more, ctx.Err()
}

// dropSmall forgets the small contents of which no object is left.
func (s *Service) dropSmall(ctx context.Context, small map[metastore.ContentID][]string, left bytestore.Undeleted) error {
	gone := make([]metastore.ContentID, 0, len(small))
	for id, objects := range small {
		if slices.ContainsFunc(objects, func(key string) bool { return left[bytestore.Key(key)] != nil }) {
			s.postpone(ctx, id)
		} else {
			gone = append(gone, id)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	s.unfreeable.forget(gone)
	return s.relieved(func() error { return s.meta.DropContents(ctx, gone) })
}

// share is what is freed at once of a large content.
type share struct {
	content metastore.ContentID
	from    metastore.Position // extents before it could not be freed; zero: there are none
	extents []metastore.Extent
	last    bool // no extents follow
}

// shares returns the next share of each content that is not small.
func (s *Service) shares(ctx context.Context, ids []metastore.ContentID, small map[metastore.ContentID][]string) ([]share, error) {
	limit := max(leastExtents, extentsAtOnce/max(1, len(ids)-len(small)))
	var list []share
	for _, id := range ids {
		if _, ok := small[id]; ok {
			continue
		}
		from := s.unfreeable.from(id)
		extents, err := s.meta.Extents(ctx, id, from, limit)
		if err != nil {
			return nil, err
		}
		list = append(list, share{id, from, extents, len(extents) < limit})
	}
	return list, nil
}

// dropShare forgets those extents of a share whose objects are gone, and at the
// end the content. It goes on behind those that are left, so that they do not
// keep the rest. It reports whether there is more to free of the content now.
func (s *Service) dropShare(ctx context.Context, sh share, left bytestore.Undeleted) (more bool, err error) {
	var done []metastore.Position
	for i := range sh.extents {
		if e := &sh.extents[i]; left[bytestore.Key(e.Key)] == nil {
			done = append(done, metastore.Position{Part: e.Part, Offset: e.Offset})
		}
	}
	if len(done) > 0 {
		if err := s.relieved(func() error { return s.meta.DropExtents(ctx, sh.content, done) }); err != nil {
			s.postpone(ctx, sh.content)
			return false, err
		}
	}
	whole := sh.from == metastore.Position{} && len(done) == len(sh.extents)
	switch {
	case !sh.last:
		if !whole {
			end := sh.extents[len(sh.extents)-1]
			s.unfreeable.goOn(sh.content, metastore.Position{Part: end.Part, Offset: end.Offset + end.Size})
		}
		return true, nil
	case whole:
		s.unfreeable.forget([]metastore.ContentID{sh.content})
		err := s.relieved(func() error { return s.meta.DropContent(ctx, sh.content) })
		if err != nil {
			s.postpone(ctx, sh.content)
		}
		return false, err
	default:
		s.postpone(ctx, sh.content)
		return false, nil
	}
}

// postpone keeps a content that could not be freed from being tried again at
// once, unless it was not the content's fault.
func (s *Service) postpone(ctx context.Context, id metastore.ContentID) {
	if ctx.Err() == nil {
		s.unfreeable.postpone(id, s.meta.Now())
	}
}

// objectsOf returns the keys of the extents that have objects.
func objectsOf(extents []metastore.Extent) []bytestore.Key {
	var keys []bytestore.Key
	for i := range extents {
		if key := extents[i].Key; key != "" {
			keys = append(keys, bytestore.Key(key))
		}
	}
	return keys
}

// deleters is how many requests for deletes are at work at once. It makes up for
// a store that takes its time for each, and who waits for one comes in turn.
const deleters = 32

// deleteObjects deletes objects, evenly shared among the deleters, and returns
// those that are left.
func (s *Service) deleteObjects(ctx context.Context, keys []bytestore.Key) bytestore.Undeleted {
	var (
		workers sync.WaitGroup
		mu      sync.Mutex
		left    = bytestore.Undeleted{}
	)
	for chunk := range slices.Chunk(keys, max(1, (len(keys)+deleters-1)/deleters)) {
		workers.Go(func() {
			var failed bytestore.Undeleted
			select {
			case s.deletes <- struct{}{}:
				failed = bytestore.UndeletedOf(chunk, s.bytes.Delete(ctx, chunk...))
				<-s.deletes
			case <-ctx.Done():
				failed = bytestore.UndeletedOf(chunk, ctx.Err())
			}
			mu.Lock()
			defer mu.Unlock()
			for key, err := range failed {
				left[key] = err
			}
		})
	}
	workers.Wait()
	return left
}
