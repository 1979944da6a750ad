package sqlstore

import (
	"context"
	"time"
)

// Ledger implements ledger.Store on a database.
type Ledger struct {
	db   *DB
	uses *useBatcher
}

// NewLedger returns the verbs on a database.
func NewLedger(db *DB) *Ledger {
	start := func(until time.Time, fn func(moneyTx) error, done func(any, error)) error {
		return db.startLocked(until, onLedger(fn), done)
	}
	return &Ledger{db: db, uses: newUseBatcher(start, db.Now, db.oneWriter())}
}

// moneyTx is a transaction with the statements of this package.
type moneyTx struct{ *tx }

func onLedger(fn func(moneyTx) error) func(*tx) error {
	return func(t *tx) error { return fn(moneyTx{t}) }
}

func (s *Ledger) write(ctx context.Context, fn func(moneyTx) error) error {
	return s.db.write(ctx, onLedger(fn))
}

func (s *Ledger) writeLocked(ctx context.Context, fn func(moneyTx) error) error {
	return s.db.writeLocked(ctx, onLedger(fn))
}

func (s *Ledger) read(ctx context.Context, fn func(moneyTx) error) error {
	return s.db.read(ctx, onLedger(fn))
}

func (s *Ledger) snapshot(ctx context.Context, fn func(moneyTx) error) error {
	return s.db.snapshot(ctx, onLedger(fn))
}

func (s *Ledger) readList(ctx context.Context, fn func(moneyTx) error) error {
	return s.db.readList(ctx, onLedger(fn))
}

func (s *Ledger) snapshotList(ctx context.Context, fn func(moneyTx) error) error {
	return s.db.snapshotList(ctx, onLedger(fn))
}
