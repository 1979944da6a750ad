// Package memory implements bytestore.Store in memory, for tests. It is as strict as the contract
// permits, and loses everything when the process ends.
package memory

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"sluice/bytestore"
)

var _ bytestore.Store = (*Store)(nil)

// Store stores objects in memory. Users of one pointer share the objects.
type Store struct {
	mu      sync.RWMutex
	objects map[bytestore.Name][]byte // the values are immutable
}

// New returns an empty store.
func New() *Store {
	return &Store{objects: map[bytestore.Name][]byte{}}
}

// Put implements bytestore.Store. It checks the context between reads of src and does not interrupt
// a Read that blocks.
func (s *Store) Put(ctx context.Context, name bytestore.Name, src io.Reader, size int64) error {
	if !name.Valid() {
		return fmt.Errorf("memory: put %q: %w", name, bytestore.ErrInvalidName)
	}
	data, err := readAll(ctx, src, size)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("memory: put %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, exists := s.objects[name]; exists {
		return fmt.Errorf("memory: put %s: %w", name, bytestore.ErrExists)
	}
	s.objects[name] = data
	return nil
}

func readAll(ctx context.Context, src io.Reader, size int64) ([]byte, error) {
	source, err := bytestore.NewSource(ctx, src, size)
	if err != nil {
		return nil, err
	}
	var data bytes.Buffer
	buf := make([]byte, 32<<10)
	for end := false; !end; {
		var n int
		if n, end, err = source.Fill(buf, nil); err != nil {
			return nil, err
		}
		data.Write(buf[:n])
	}
	return data.Bytes(), nil
}

// Open implements bytestore.Store. The reader ends after n bytes and remains readable after Delete.
func (s *Store) Open(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	if !name.Valid() {
		return nil, fmt.Errorf("memory: open %q: %w", name, bytestore.ErrInvalidName)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("memory: open %s: %w", name, err)
	}
	s.mu.RLock()
	data, ok := s.objects[name]
	s.mu.RUnlock()
	size := int64(len(data))
	switch {
	case !ok:
		return nil, fmt.Errorf("memory: open %s: %w", name, bytestore.ErrNotFound)
	case off < 0 || n < 0:
		return nil, fmt.Errorf("memory: open %s: negative range", name)
	case off > size || n > size-off:
		return nil, fmt.Errorf("memory: open %s: %w: %d bytes at %d of %d", name, bytestore.ErrTruncated, n, off, size)
	}
	return io.NopCloser(bytes.NewReader(data[off : off+n])), nil
}

// Delete implements bytestore.Store.
func (s *Store) Delete(ctx context.Context, names ...bytestore.Name) error {
	return bytestore.DeleteEach(names, func(name bytestore.Name) error { return s.delete(ctx, name) })
}

func (s *Store) delete(ctx context.Context, name bytestore.Name) error {
	if !name.Valid() {
		return fmt.Errorf("memory: delete %q: %w", name, bytestore.ErrInvalidName)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memory: delete %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, name)
	return nil
}

// List implements bytestore.Store. It lists a snapshot.
func (s *Store) List(ctx context.Context, after bytestore.Name, fn func(bytestore.Object) error) error {
	for _, o := range s.objectsAfter(after) {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("memory: list: %w", err)
		}
		if err := fn(o); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) objectsAfter(after bytestore.Name) []bytestore.Object {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var list []bytestore.Object
	for name, data := range s.objects {
		if name > after {
			list = append(list, bytestore.Object{Name: name, Size: int64(len(data))})
		}
	}
	slices.SortFunc(list, func(a, b bytestore.Object) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return list
}
