package money

import (
	"time"

	"sluice/database/sqlstore/internal/engine"
)

// Ledger implements ledger.Store on a database.
type Ledger struct {
	db   *engine.DB
	in   engine.Scope[tx]
	uses *useBatcher
}

// New returns the verbs on a database.
func New(db *engine.DB) *Ledger {
	in := engine.NewScope(db, func(t *engine.Tx) tx { return tx{t} })
	start := func(until time.Time, fn func(tx) error, done func(any, error)) error {
		return db.StartLocked(until, in.On(fn), done)
	}
	return &Ledger{db: db, in: in, uses: newUseBatcher(start, db.OneWriter())}
}
