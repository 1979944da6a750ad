package engine

import (
	"errors"
	"fmt"

	"sluice/database"
)

// Errors of this package, in addition to package database's.
var (
	// ErrClosed is returned by calls on a closed store. They have no effect.
	ErrClosed = errors.New("sqlstore: closed")
	// ErrStopped is returned by writes after SQLite has met an I/O error, or a COMMIT with an
	// unknown outcome, until the store is opened again. They have no effect. Reads still work. It
	// wraps database.ErrUnavailable.
	ErrStopped = fmt.Errorf("sqlstore: stopped after an I/O error, open the store again: %w", database.ErrUnavailable)
	// ErrCorrupt is returned by writes after a statement has found the SQLite database damaged,
	// because writes could spread the damage. They have no effect. Reads still work. Opening the
	// store again does not help. It wraps database.ErrUnavailable.
	ErrCorrupt = fmt.Errorf("sqlstore: the database is damaged; stop the server and restore a backup, "+
		"or recover a copy of the file with sqlite3 .recover: %w", database.ErrUnavailable)
)

// errorClass is the meaning of an engine's error to its callers.
type errorClass int

const (
	classOther   errorClass = iota
	classBusy               // another transaction conflicts; retry
	classFull               // no space left
	classIO                 // a read, write or sync failed
	classCorrupt            // the database is damaged
	classUnique             // a key exists already
	classLost               // the engine cannot be reached, or no longer; retry
)

// translate returns package database's error for an engine's error.
func translate(f errorClass, err error) error {
	switch f {
	case classFull:
		return fmt.Errorf("sqlstore: %w: %w", database.ErrNoSpace, err)
	case classUnique:
		return fmt.Errorf("sqlstore: %w: %w", database.ErrExists, err)
	case classLost:
		return fmt.Errorf("sqlstore: %w: %w", database.ErrUnavailable, err)
	default:
		return fmt.Errorf("sqlstore: %w", err)
	}
}
