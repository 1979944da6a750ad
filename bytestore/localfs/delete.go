package localfs

import (
	"context"
	"fmt"
	"io/fs"

	"sluice/bytestore"
)

// Delete implements bytestore.Store. It syncs nothing: after a power failure the
// object may be there again, complete. The space is freed immediately or, while
// readers have the object open, when the last of them is closed.
func (s *Store) Delete(ctx context.Context, keys ...bytestore.Key) error {
	return bytestore.DeleteEach(keys, func(key bytestore.Key) error { return s.delete(ctx, key) })
}

func (s *Store) delete(ctx context.Context, key bytestore.Key) error {
	if !key.Valid() {
		return fmt.Errorf("localfs: delete %q: %w", key, bytestore.ErrInvalidKey)
	}
	err := ctx.Err()
	if s.closed.Load() {
		err = fs.ErrClosed
	}
	if err == nil {
		err = s.remove(s.path(key))
	}
	if err != nil {
		return fmt.Errorf("localfs: delete %s: %w", key, err)
	}
	return nil
}
