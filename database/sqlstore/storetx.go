package sqlstore

import (
	"context"

	"sluice/database/sqlstore/internal/engine"
)

// storeTx is a transaction with the statements of this package.
type storeTx struct{ *engine.Tx }

func onStore(fn func(storeTx) error) func(*engine.Tx) error {
	return func(t *engine.Tx) error { return fn(storeTx{t}) }
}

func (s *Store) write(ctx context.Context, fn func(storeTx) error) error {
	return s.db.Write(ctx, onStore(fn))
}

func (s *Store) writeLocked(ctx context.Context, fn func(storeTx) error) error {
	return s.db.WriteLocked(ctx, onStore(fn))
}

func (s *Store) read(ctx context.Context, fn func(storeTx) error) error {
	return s.db.Read(ctx, onStore(fn))
}

func (s *Store) snapshot(ctx context.Context, fn func(storeTx) error) error {
	return s.db.Snapshot(ctx, onStore(fn))
}
