// Package sqlstore implements every contract of an instance's database on SQL: on SQLite for an
// embedded database, and on PostgreSQL for any number of nodes.
//
// A Store has one database, and consists of rooms that share it, each a package of its own:
//
//   - internal/engine is the database: SQLite's writer and readers, PostgreSQL's connections,
//     commits, retries, clocks and migrations.
//   - internal/meta implements metastore.Store, internal/money ledger.Store.
//   - internal/usage counts owners' usage, for both.
//
// This package has the rest: API keys (keys.go), leases, nodes and properties in files of these
// names, and code that spans rooms: purge.go, audit.go, census.go, and the copy between databases
// in copy.go and copy_tables.go. store.go opens a Store, and api.go names the rooms' public parts.
// docs/decisions/0029-rooms-of-the-database.md lists the places where rooms meet.
//
// # Isolation
//
// Operations in Write are isolated from all operations by the engine (SERIALIZABLE in PostgreSQL).
// Operations in WriteLocked are isolated by locks: they lock the row of the upload, session,
// channel or blob that they decide on, or, if there may be no row yet, its name (Tx.Lock).
// PostgreSQL runs them in READ COMMITTED. The two kinds conflict in rows: a transaction that writes
// a row which changed since the transaction began waits, and then reads it again or is retried.
// SQLite has a single writer, so there both kinds are the same.
package sqlstore
