package sqlstore

import (
	"context"
)

// storeTx is a transaction with the statements of this package.
type storeTx struct{ *tx }

func onStore(fn func(storeTx) error) func(*tx) error {
	return func(t *tx) error { return fn(storeTx{t}) }
}

func (s *Store) write(ctx context.Context, fn func(storeTx) error) error {
	return s.db.write(ctx, onStore(fn))
}

func (s *Store) writeLocked(ctx context.Context, fn func(storeTx) error) error {
	return s.db.writeLocked(ctx, onStore(fn))
}

func (s *Store) read(ctx context.Context, fn func(storeTx) error) error {
	return s.db.read(ctx, onStore(fn))
}

func (s *Store) snapshot(ctx context.Context, fn func(storeTx) error) error {
	return s.db.snapshot(ctx, onStore(fn))
}

func (s *Store) readList(ctx context.Context, fn func(storeTx) error) error {
	return s.db.readList(ctx, onStore(fn))
}

func (s *Store) snapshotList(ctx context.Context, fn func(storeTx) error) error {
	return s.db.snapshotList(ctx, onStore(fn))
}
