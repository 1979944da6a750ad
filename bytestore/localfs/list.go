package localfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"sluice/bytestore"
)

// List implements bytestore.Store. It holds one shard's names at a time, and the names outside the
// shards.
func (s *Store) List(ctx context.Context, after bytestore.Name, fn func(bytestore.Object) error) error {
	if s.closed.Load() {
		return fmt.Errorf("localfs: list: %w", fs.ErrClosed)
	}
	others, err := s.entries(ctx, s.root, after)
	if err != nil {
		return err
	}
	for i, shard := range s.shards {
		if shardName(i) < string(after[:min(2, len(after))]) {
			continue // all of its names precede after
		}
		entries, err := s.entries(ctx, shard, after)
		if err != nil {
			return err
		}
		for _, e := range entries {
			for len(others) > 0 && others[0].Name() < e.Name() {
				if err := visit(ctx, others[0], fn); err != nil {
					return err
				}
				others = others[1:]
			}
			if err := visit(ctx, e, fn); err != nil {
				return err
			}
		}
	}
	for _, e := range others {
		if err := visit(ctx, e, fn); err != nil {
			return err
		}
	}
	return nil
}

// entries returns a folder's objects with names greater than after, in byte order.
func (s *Store) entries(ctx context.Context, f *folder, after bytestore.Name) ([]fs.DirEntry, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("localfs: list: %w", err)
	}
	all, err := s.fs.ReadDir(f.path)
	if s.mayLackShards && f != s.root && errors.Is(err, fs.ErrNotExist) {
		all, err = nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("localfs: list: %w", err)
	}
	objects := all[:0]
	for _, e := range all {
		name := bytestore.Name(e.Name())
		if name > after && name.Valid() && e.Type().IsRegular() && s.folder(name) == f {
			objects = append(objects, e)
		}
	}
	return objects, nil
}

// visit calls fn for an entry's object, unless it was deleted since the folder was read.
func visit(ctx context.Context, e fs.DirEntry, fn func(bytestore.Object) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("localfs: list: %w", err)
	}
	info, err := e.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("localfs: list: %w", err)
	}
	return fn(bytestore.Object{Name: bytestore.Name(e.Name()), Size: info.Size()})
}
