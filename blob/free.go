package blob

import (
	"context"
	"errors"
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
	defer s.wake()
	if s.opt.GarbageGrace > 0 || len(s.pins.unread([]metastore.ContentID{content})) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), freeNow)
	defer cancel()
	_ = s.free(ctx, content) // it is still garbage, and tried again
}

// wake asks Run to look for garbage now.
func (s *Service) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// FreeGarbage deletes the bytes of all contents that have been garbage for the
// grace period and that nobody reads. It goes on past failures and returns them
// joined.
func (s *Service) FreeGarbage(ctx context.Context) error {
	const page = 256
	before := s.opt.Now().Add(-s.opt.GarbageGrace)
	var (
		after metastore.ContentID
		errs  []error
	)
	for {
		ids, err := s.meta.GarbageContents(ctx, before, after, page)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		for _, id := range s.pins.unread(ids) {
			if err := s.free(ctx, id); err != nil {
				errs = append(errs, err)
			}
			if ctx.Err() != nil {
				return errors.Join(errs...)
			}
		}
		if len(ids) < page {
			return errors.Join(errs...)
		}
		after = ids[len(ids)-1]
	}
}

// free deletes a garbage content: objects first, then what is known of them, so
// that a crash in between repeats the deletes and loses none.
func (s *Service) free(ctx context.Context, content metastore.ContentID) error {
	const page = 256
	for {
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
		if err := s.meta.DropExtents(ctx, content, done); err != nil {
			return err
		}
	}
}
