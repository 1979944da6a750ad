package meta

import "sluice/database/sqlstore/internal/engine"

// Metastore implements metastore.Store on a database.
type Metastore struct {
	db      *engine.DB
	in      engine.Scope[tx]
	rows    *BlobCache // may be nil
	lookups *lookups   // nil: each has its own query
}

// New returns the verbs on a database. cache must be the one that the database informs about
// commits, or nil.
func New(db *engine.DB, cache *BlobCache) *Metastore {
	s := &Metastore{db: db, in: engine.NewScope(db, func(t *engine.Tx) tx { return tx{t} }), rows: cache}
	if !db.OneWriter() { // queries are round trips
		s.lookups = newLookups(s.in.Read)
	}
	return s
}
