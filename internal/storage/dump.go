package storage

import "sluice/database/sqlstore"

// What a dump has; see sqlstore.Store's methods Dump, Bodies and Load.
type (
	Dump  = sqlstore.Dump
	Table = sqlstore.Table
	Body  = sqlstore.Body
)

// The tables that only a dump has.
const (
	ObjectsTable = sqlstore.ObjectsTable
	InlineTable  = sqlstore.InlineTable
)
