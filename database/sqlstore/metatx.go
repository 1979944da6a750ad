package sqlstore

import (
	"context"
)

// Metastore implements metastore.Store on a database.
type Metastore struct {
	db   *DB
	rows *blobCache // may be nil
}

// NewMetastore returns the verbs on a database. cache must be the one that the database informs about
// commits, or nil.
func NewMetastore(db *DB, cache *blobCache) *Metastore { return &Metastore{db: db, rows: cache} }

// CacheStats returns the figures of the cache of blobs.
func (s *Metastore) CacheStats() BlobCacheStats { return s.rows.stats() }

// metaTx is a transaction with the statements of this package.
type metaTx struct{ *tx }

func onMetastore(fn func(metaTx) error) func(*tx) error {
	return func(t *tx) error { return fn(metaTx{t}) }
}

func (s *Metastore) write(ctx context.Context, fn func(metaTx) error) error {
	return s.db.write(ctx, onMetastore(fn))
}

func (s *Metastore) writeLocked(ctx context.Context, fn func(metaTx) error) error {
	return s.db.writeLocked(ctx, onMetastore(fn))
}

func (s *Metastore) read(ctx context.Context, fn func(metaTx) error) error {
	return s.db.read(ctx, onMetastore(fn))
}

func (s *Metastore) snapshot(ctx context.Context, fn func(metaTx) error) error {
	return s.db.snapshot(ctx, onMetastore(fn))
}

func (s *Metastore) readList(ctx context.Context, fn func(metaTx) error) error {
	return s.db.readList(ctx, onMetastore(fn))
}

func (s *Metastore) snapshotList(ctx context.Context, fn func(metaTx) error) error {
	return s.db.snapshotList(ctx, onMetastore(fn))
}
