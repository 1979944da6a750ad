package meta

import (
	"context"

	"sluice/database/sqlstore/internal/engine"
)

// Metastore implements metastore.Store on a database.
type Metastore struct {
	db      *engine.DB
	rows    *BlobCache // may be nil
	lookups *lookups   // nil: each has its own query
}

// New returns the verbs on a database. cache must be the one that the database informs about
// commits, or nil.
func New(db *engine.DB, cache *BlobCache) *Metastore {
	s := &Metastore{db: db, rows: cache}
	if !db.OneWriter() { // queries are round trips
		s.lookups = newLookups(s.read)
	}
	return s
}

func (s *Metastore) write(ctx context.Context, fn func(tx) error) error {
	return s.db.Write(ctx, onMetastore(fn))
}

func (s *Metastore) writeLocked(ctx context.Context, fn func(tx) error) error {
	return s.db.WriteLocked(ctx, onMetastore(fn))
}

func (s *Metastore) read(ctx context.Context, fn func(tx) error) error {
	return s.db.Read(ctx, onMetastore(fn))
}

func (s *Metastore) snapshot(ctx context.Context, fn func(tx) error) error {
	return s.db.Snapshot(ctx, onMetastore(fn))
}

func (s *Metastore) readList(ctx context.Context, fn func(tx) error) error {
	return s.db.ReadList(ctx, onMetastore(fn))
}

func (s *Metastore) snapshotList(ctx context.Context, fn func(tx) error) error {
	return s.db.SnapshotList(ctx, onMetastore(fn))
}
