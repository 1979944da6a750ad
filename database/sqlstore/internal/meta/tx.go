package meta

import "sluice/database/sqlstore/internal/engine"

// tx is a transaction with the statements of this package.
type tx struct{ *engine.Tx }

func onMetastore(fn func(tx) error) func(*engine.Tx) error {
	return func(t *engine.Tx) error { return fn(tx{t}) }
}
