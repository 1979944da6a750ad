package blob

import (
	"context"
	"errors"
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
	if s.opt.GarbageGrace > 0 || len(s.pins.unread([]metastore.ContentID{content})) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), freeNow)
	defer cancel()
	_ = s.free(ctx, content) // it is still garbage, and tried again
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

// FreeGarbage deletes the bytes of all contents that have been garbage for the
// grace period and that nobody reads. It goes on past failures and returns them
// joined.
func (s *Service) FreeGarbage(ctx context.Context) error {
	const page = 256
	var (
		after metastore.GarbageContent
		errs  []error
	)
	for ctx.Err() == nil {
		if err := s.opt.MayDelete(ctx); err != nil {
			return errors.Join(append(errs, err)...)
		}
		due, err := s.meta.GarbageContents(ctx, s.opt.GarbageGrace, after, page)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		ids := make([]metastore.ContentID, len(due))
		for i, g := range due {
			ids[i] = g.Content
		}
		if err := s.freePage(ctx, s.pins.unread(ids)); err != nil {
			errs = append(errs, err)
		}
		if len(due) < page {
			break
		}
		after = due[len(due)-1]
	}
	return errors.Join(errs...)
}

// freePage frees a page of garbage contents: the small ones together, in one
// transaction, so that a stream of overwrites cannot outrun it; each large one
// by itself.
func (s *Service) freePage(ctx context.Context, ids []metastore.ContentID) error {
	if len(ids) == 0 {
		return nil
	}
	small, err := s.meta.GarbageObjects(ctx, ids)
	if err != nil {
		return err
	}
	freed, err := s.deleteObjects(ctx, small)
	errs := []error{err, s.relieved(func() error { return s.meta.DropContents(ctx, freed) })}
	for _, id := range ids {
		if _, ok := small[id]; !ok {
			errs = append(errs, s.free(ctx, id))
		}
	}
	return errors.Join(errs...)
}

// deleters is how many objects are deleted at once.
const deleters = 8

// deleteObjects deletes the objects of these contents, and gives the contents of
// which all are gone.
func (s *Service) deleteObjects(ctx context.Context, contents map[metastore.ContentID][]string) ([]metastore.ContentID, error) {
	var (
		workers sync.WaitGroup
		work    = make(chan metastore.ContentID)
		mu      sync.Mutex
		gone    []metastore.ContentID
		errs    []error
	)
	for range min(deleters, len(contents)) {
		workers.Go(func() {
			for id := range work {
				var err error
				for _, key := range contents[id] {
					err = errors.Join(err, s.bytes.Delete(ctx, bytestore.Key(key)))
				}
				mu.Lock()
				if err == nil {
					gone = append(gone, id)
				} else {
					errs = append(errs, err)
				}
				mu.Unlock()
			}
		})
	}
	for id := range contents {
		work <- id
	}
	close(work)
	workers.Wait()
	return gone, errors.Join(errs...)
}

// free deletes a garbage content: objects first, then what is known of them, so
// that a crash in between repeats the deletes and loses none.
func (s *Service) free(ctx context.Context, content metastore.ContentID) error {
	const page = 256
	for {
		if err := s.opt.MayDelete(ctx); err != nil {
			return err
		}
		extents, err := s.meta.Extents(ctx, content, metastore.Position{}, page)
		if err != nil {
			return err
		}
		if len(extents) == 0 {
			return s.meta.DropContent(ctx, content)
		}
		done := make([]metastore.Position, 0, len(extents))
		for _, e := range extents {
			if e.Key != "" {
				if err := s.bytes.Delete(ctx, bytestore.Key(e.Key)); err != nil {
					return err
				}
			}
			done = append(done, metastore.Position{Part: e.Part, Offset: e.Offset})
		}
		if err := s.relieved(func() error { return s.meta.DropExtents(ctx, content, done) }); err != nil {
			return err
		}
	}
}
