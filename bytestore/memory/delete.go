package memory

import (
	"context"
	"fmt"

	"sluice/bytestore"
)

// Delete implements bytestore.Store.
func (s *Store) Delete(ctx context.Context, keys ...bytestore.Key) error {
	return bytestore.DeleteEach(keys, func(key bytestore.Key) error { return s.delete(ctx, key) })
}

func (s *Store) delete(ctx context.Context, key bytestore.Key) error {
	if !key.Valid() {
		return fmt.Errorf("memory: delete %q: %w", key, bytestore.ErrInvalidKey)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memory: delete %s: %w", key, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, key)
	return nil
}
