// Package engine is an SQL database: transactions, commits, clocks and migrations on SQLite or
// PostgreSQL. It knows no table but its own, and no contract but package database.
//
// # Files
//
//   - db.go has DB, on which all verbs run, engine.go the interface that SQLite and PostgreSQL
//     implement, tx.go the transaction, columns.go the values of columns, bound.go the pages of
//     lists, rowkey.go the interface of caches of rows, and errors.go the errors.
//   - sqlite_*.go is the engine for SQLite: sqlite_open.go opens it, sqlite_writer.go is the
//     writer, sqlite_readers.go the pool for reads and sqlite_checkpoint.go the checkpoints.
//     sqlite_errors.go, sqlite_commit.go and sqlite_health.go interpret errors.
//   - postgres_*.go is the engine for PostgreSQL: postgres_open.go opens it, postgres_engine.go has
//     the pool of connections, postgres_primary.go which of them are used, postgres_hosts.go the
//     hosts that they lead to, postgres_tx.go transactions, postgres_retry.go their retries,
//     postgres_commit.go the COMMIT, postgres_background.go the background tasks.
//   - observe.go shows tests the statements that run.
//   - migrate.go applies migrations/sqlite and migrations/postgres.
//   - clock.go, sqlite_clock.go and postgres_clock.go have the clocks by which stores judge the
//     time.
//   - guard.go has the permission that commits need, and shared_timer.go the timer of waiting
//     callers.
//
// # How a write commits on SQLite
//
// One goroutine owns the only connection that writes. It runs the calls that are waiting, and those
// that arrive while it does, in one transaction, and returns from them after the COMMIT that they
// share, so that one fsync serves many calls. If a call fails after a change, the batch is rolled
// back and each of its calls runs in a transaction of its own. After an I/O error, or a COMMIT
// whose outcome is unknown, the store refuses writes until it is opened again (ErrStopped). Nothing
// is acknowledged before the log of an earlier process has been moved into the database.
//
// # How a write commits on PostgreSQL
//
// Each call is a transaction on a pooled connection, which is retried after a serialization
// failure, a deadlock or a lost connection until the call's patience ends. Each transaction first
// inserts a random id. If the response to its COMMIT is lost, it is begun again with the same id:
// the insert waits for the first transaction to end and then conflicts if that was committed. If
// this cannot be determined in time, the call returns database.ErrUnknownOutcome. A COMMIT is never
// cancelled. If its server hangs, or another server is the newest primary, its connection is
// closed.
package engine
