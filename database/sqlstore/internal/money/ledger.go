package money

import (
	"context"
	"time"

	"sluice/database/sqlstore/internal/engine"
)

// Ledger implements ledger.Store on a database.
type Ledger struct {
	db   *engine.DB
	uses *useBatcher
}

// New returns the verbs on a database.
func New(db *engine.DB) *Ledger {
	start := func(until time.Time, fn func(tx) error, done func(any, error)) error {
		return db.StartLocked(until, onLedger(fn), done)
	}
	return &Ledger{db: db, uses: newUseBatcher(start, db.OneWriter())}
}

func (s *Ledger) write(ctx context.Context, fn func(tx) error) error {
	return s.db.Write(ctx, onLedger(fn))
}

func (s *Ledger) writeLocked(ctx context.Context, fn func(tx) error) error {
	return s.db.WriteLocked(ctx, onLedger(fn))
}

func (s *Ledger) read(ctx context.Context, fn func(tx) error) error {
	return s.db.Read(ctx, onLedger(fn))
}

func (s *Ledger) snapshot(ctx context.Context, fn func(tx) error) error {
	return s.db.Snapshot(ctx, onLedger(fn))
}

func (s *Ledger) readList(ctx context.Context, fn func(tx) error) error {
	return s.db.ReadList(ctx, onLedger(fn))
}

func (s *Ledger) snapshotList(ctx context.Context, fn func(tx) error) error {
	return s.db.SnapshotList(ctx, onLedger(fn))
}
