package sqlstore

import (
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/meta"
)

// SchemaChange is the change that opening a database may make to its schema.
type SchemaChange = engine.SchemaChange

const (
	// Migrate creates the schema, or brings an older one up to date, from which there is no way
	// back.
	Migrate = engine.Migrate
	// Create creates the schema if there is none. An older one is refused with database.ErrOlder.
	Create = engine.Create
	// Keep changes nothing: another process may be using the database. One that does not exist is
	// refused with fs.ErrNotExist (SQLite), and a schema that does not exist or is older with
	// database.ErrOlder.
	Keep = engine.Keep
)

// Schema returns this program's schema number.
func Schema() int { return engine.Schema() }

// Errors of this package, in addition to package database's.
var (
	// ErrClosed is returned by calls on a closed store. They have no effect.
	ErrClosed = engine.ErrClosed
	// ErrStopped is returned by writes after SQLite has met an I/O error, or a COMMIT with an
	// unknown outcome, until the store is opened again. They have no effect. Reads still work. It
	// wraps database.ErrUnavailable.
	ErrStopped = engine.ErrStopped
	// ErrCorrupt is returned by writes after a statement has found the SQLite database damaged,
	// because writes could spread the damage. They have no effect. Reads still work. Opening the
	// store again does not help. It wraps database.ErrUnavailable.
	ErrCorrupt = engine.ErrCorrupt
)

// InlineExtent is an inline extent with its body.
type InlineExtent = meta.InlineExtent

// EngineStats are the figures of a Store's engine.
type EngineStats = engine.Stats

// SQLiteStats are SQLite's figures.
type SQLiteStats = engine.SQLiteStats

// PostgresStats are PostgreSQL's figures.
type PostgresStats = engine.PostgresStats

// BlobCacheStats are the blob cache's figures.
type BlobCacheStats = meta.BlobCacheStats
