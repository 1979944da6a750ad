package meta

import "sluice/database/sqlstore/internal/engine"

// tx is a transaction with the statements of this package.
type tx struct{ *engine.Tx }
