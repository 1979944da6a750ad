package memory

import (
	"context"
	"fmt"
	"io"

	"sluice/bytestore"
)

// Put implements bytestore.Store. The context is looked at between reads of
// src; a Read that blocks is not interrupted.
func (s *Store) Put(ctx context.Context, key bytestore.Key, src io.Reader, size int64) error {
	if !key.Valid() {
		return fmt.Errorf("memory: put %q: %w", key, bytestore.ErrInvalidKey)
	}
	data, err := readExactly(contextReader{ctx, src}, size)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("memory: put %s: %w", key, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.objects[key]; taken {
		return fmt.Errorf("memory: put %s: %w", key, bytestore.ErrExists)
	}
	s.objects[key] = data
	return nil
}

func readExactly(src io.Reader, size int64) ([]byte, error) {
	if size == bytestore.UnknownSize {
		return io.ReadAll(src)
	}
	data, err := io.ReadAll(io.LimitReader(src, size+1)) // one more shows a source that goes on
	if err == nil && int64(len(data)) != size {
		err = fmt.Errorf("%w: %d bytes promised, source held %d (or more)", bytestore.ErrSize, size, len(data))
	}
	return data, err
}

// contextReader fails once its context has ended.
type contextReader struct {
	ctx context.Context
	src io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.src.Read(p)
}
