package blob

import (
	"context"
	"sync"
	"time"

	"sluice/metastore"
)

// Content is a blob's content, pinned: its bytes remain readable until Close, even if the blob is
// replaced or deleted, unless the content is cut (ErrCut). Its methods may be called concurrently.
type Content struct {
	metastore.Blob
	first []metastore.Extent // the extent with the first byte, if any
	s     *Service
	until time.Time // with a monotonic reading
	close sync.Once
	pin   pin
}

// Open finds a blob and pins its content. It returns database.ErrNotFound or database.ErrExpired.
// The caller must Close the content.
func (s *Service) Open(ctx context.Context, account, name string) (*Content, error) {
	return s.open(func() (metastore.Blob, []metastore.Extent, error) { return s.meta.OpenBlob(ctx, account, name) })
}

// open pins the content that a blob has which find returns.
func (s *Service) open(find func() (metastore.Blob, []metastore.Extent, error)) (*Content, error) {
	for {
		l := s.pins.begin()
		b, first, err := find()
		if err != nil {
			s.pins.abandon(l)
			return nil, err
		}
		c := &Content{Blob: b, first: first, s: s, pin: pin{content: b.Content}}
		if s.opt.GarbageGrace > 0 {
			c.until = time.Now().Add(s.opt.GarbageGrace - graceMargin)
		}
		if s.pins.add(l, &c.pin) {
			return c, nil
		}
		// The blob was deleted or replaced, and its content is being freed.
	}
}

// graceMargin is subtracted from the grace period. It covers differences between the nodes, which
// each measure the metadata engine's clock.
const graceMargin = time.Minute

// Close unpins the content. It is idempotent.
func (c *Content) Close() {
	c.close.Do(func() {
		c.OnCut(nil)
		if c.s.pins.remove(&c.pin) {
			c.s.garbageArose()
		}
	})
}

// Until returns the time until which the content is guaranteed to be readable, even if the blob is
// deleted or replaced, or the zero time if it is readable until it is closed or cut. The time has a
// monotonic reading, so setting the wall clock does not affect it.
func (c *Content) Until() time.Time { return c.until }

// OnCut sets a function that is called when the content is cut, or immediately if it was cut
// before. The function should interrupt a reader that is blocked. A content is cut 24 hours after
// its blob was deleted or replaced, or at any time after the deletion while the store is full.
// onCut must be fast and must not call methods of c; it is not called after Close has returned. nil
// removes the function.
func (c *Content) OnCut(onCut func()) { c.pin.setOnCut(onCut) }

// extents returns up to limit extents, beginning with the one that has the content's byte off.
func (c *Content) extents(ctx context.Context, off int64, limit int) ([]metastore.Extent, error) {
	if c.PartSize == metastore.UnevenParts {
		return c.s.meta.ExtentsAt(ctx, c.Content, off, limit)
	}
	position := metastore.Position{Offset: off}
	if c.PartSize > 0 {
		position = metastore.Position{Part: int(off / c.PartSize), Offset: off % c.PartSize}
	}
	return c.s.meta.Extents(ctx, c.Content, position, limit)
}

// start returns an extent's offset in the content.
func (c *Content) start(e *metastore.Extent) int64 {
	if c.PartSize == metastore.UnevenParts {
		return e.Start + e.Offset
	}
	return int64(e.Part)*c.PartSize + e.Offset
}
