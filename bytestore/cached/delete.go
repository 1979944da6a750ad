package cached

import (
	"context"
	"fmt"
	"io/fs"

	"sluice/bytestore"
)

// Delete implements bytestore.Store. Once it has returned, even with an error, this Store serves no
// Open from blocks that were cached before. The caches of other nodes keep their blocks until they
// are evicted: nothing refers to the objects any more.
func (s *Store) Delete(ctx context.Context, names ...bytestore.Name) error {
	if s.ctx.Err() != nil {
		return bytestore.UndeletedOf(names, fmt.Errorf("cached: delete: %w", fs.ErrClosed)).OrNil()
	}
	// In this order: a fetch after the deletion does not find the object, and blocks that were
	// fetched before are removed.
	err := s.inner.Delete(ctx, names...)
	for _, name := range names {
		s.Invalidate(name)
	}
	return err
}

// Invalidate implements bytestore.Invalidator. If the object is being fetched, the result is not
// cached. If a file cannot be removed, the next Store in this folder may find it.
func (s *Store) Invalidate(name bytestore.Name) {
	s.discard(s.removeCached(name)...)
}

// removeCached removes the object from the index and returns the entries; their files must be
// removed.
func (s *Store) removeCached(name bytestore.Name) []*entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	for span, f := range s.flights {
		if span.object == name {
			f.invalidated = true
			delete(s.flights, span) // later readers do not join it
		}
	}
	return s.blocks.removeAll(name)
}
