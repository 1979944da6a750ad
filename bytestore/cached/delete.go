package cached

import (
	"context"
	"fmt"
	"io/fs"

	"sluice/bytestore"
)

// Delete implements bytestore.Store. Once it has returned, also with an error,
// no Open of this Store is answered from what was cached of the objects. Caches
// of other nodes keep their blocks until they need the room: nothing refers to
// the objects any more.
func (s *Store) Delete(ctx context.Context, keys ...bytestore.Key) error {
	if s.ctx.Err() != nil {
		return bytestore.UndeletedOf(keys, fmt.Errorf("cached: delete: %w", fs.ErrClosed)).OrNil()
	}
	// In this order: what is fetched after the object is gone is not found,
	// what was fetched before is forgotten.
	err := s.inner.Delete(ctx, keys...)
	for _, key := range keys {
		s.Invalidate(key)
	}
	return err
}

// Forget drops what is cached of the object; a fetch of it that is under way
// will not be kept. It is for a reader that found the object's bytes to be
// wrong: the next Open asks the store beneath. A file that cannot be removed
// may be found again by the next Store in this folder.
func (s *Store) Invalidate(key bytestore.Key) {
	s.discard(s.forget(key)...)
}

// forget takes the object out of all books and returns the files to remove.
func (s *Store) forget(key bytestore.Key) []*entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	for span, f := range s.flights {
		if span.key == key {
			f.forgotten = true
			delete(s.flights, span) // who comes from now on does not join it
		}
	}
	return s.blocks.removeAll(key)
}
