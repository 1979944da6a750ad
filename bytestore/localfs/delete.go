package localfs

import (
	"context"
	"fmt"
	"io/fs"

	"sluice/bytestore"
)

// Delete implements bytestore.Store. It syncs nothing: after a power failure the object may be
// there again, complete. The space is freed immediately or, while readers have the object open,
// when the last of them is closed.
func (s *Store) Delete(ctx context.Context, names ...bytestore.Name) error {
	return bytestore.DeleteEach(names, func(name bytestore.Name) error { return s.delete(ctx, name) })
}

func (s *Store) delete(ctx context.Context, name bytestore.Name) error {
	if !name.Valid() {
		return fmt.Errorf("localfs: delete %q: %w", name, bytestore.ErrInvalidName)
	}
	err := ctx.Err()
	if s.closed.Load() {
		err = fs.ErrClosed
	}
	if err == nil {
		err = s.removeObject(name)
	}
	if err != nil {
		return fmt.Errorf("localfs: delete %s: %w", name, err)
	}
	return nil
}
