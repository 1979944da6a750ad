package storage

import "sluice/database/sqlstore"

// Dump receives a database's snapshot.
type Dump = sqlstore.Dump

// Table describes rows in a dump.
type Table = sqlstore.Table

// Body is an inline body.
type Body = sqlstore.Body

// The tables that only a dump has.
const (
	ObjectsTable = sqlstore.ObjectsTable
	InlineTable  = sqlstore.InlineTable
)
