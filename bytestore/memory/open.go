package memory

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"sluice/bytestore"
)

// Open implements bytestore.Store. The reader ends after n bytes and stays
// readable after Delete.
func (s *Store) Open(ctx context.Context, key bytestore.Key, off, n int64) (io.ReadCloser, error) {
	if !key.Valid() {
		return nil, fmt.Errorf("memory: open %q: %w", key, bytestore.ErrInvalidKey)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("memory: open %s: %w", key, err)
	}
	s.mu.RLock()
	data, ok := s.objects[key]
	s.mu.RUnlock()
	size := int64(len(data))
	switch {
	case !ok:
		return nil, fmt.Errorf("memory: open %s: %w", key, bytestore.ErrNotFound)
	case off < 0 || n < 0:
		return nil, fmt.Errorf("memory: open %s: negative range", key)
	case off > size || n > size-off:
		return nil, fmt.Errorf("memory: open %s: %w: %d bytes at %d of %d", key, bytestore.ErrTruncated, n, off, size)
	}
	return io.NopCloser(bytes.NewReader(data[off : off+n])), nil
}
