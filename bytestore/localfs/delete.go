package localfs

import (
	"context"
	"fmt"
	"io/fs"

	"sluice/bytestore"
)

// Delete implements bytestore.Store. It syncs nothing: a power cut may bring
// the object back, whole. The space is given back at once, or, while readers
// have the object open, when the last of them closes.
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
