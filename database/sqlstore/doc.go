// Package sqlstore implements metastore.Store on SQL databases: on SQLite for an
// embedded database, and on PostgreSQL for any number of nodes.
//
// # Files
//
//   - store.go has Store and its options, engine.go the interface that SQLite and
//     PostgreSQL implement, tx.go the transaction on which all operations work, columns.go
//     the values of columns, names.go the names of blobs, and errors.go the errors.
//   - The operations are in files without a prefix, one for each kind of row: blobs.go,
//     uploads.go, extents.go, list.go, sessions.go, charges.go, channels.go, payments.go,
//     settlements.go, payout.go, keys.go, usage.go, accounts.go, garbage.go, leases.go,
//     nodes.go, properties.go. Their SQL is the same for both engines. use_batcher.go combines
//     concurrent uses; below it are known_sessions.go, session_rows.go and charge_records.go.
//     idempotency.go records the results of calls in the form of outcome.go.
//   - Maintenance is in purge.go, fold.go, counts.go, amounts.go and audit.go, and the copy between
//     databases in copy.go and copy_tables.go.
//   - blob_cache.go has the rows of blobs that are read often, on SQLite.
//   - sqlite_*.go is the engine for SQLite: sqlite_open.go opens it, sqlite_writer.go is the
//     writer, sqlite_readers.go the pool for reads and sqlite_checkpoint.go the checkpoints.
//     sqlite_errors.go, sqlite_commit.go and sqlite_health.go have what an error means.
//   - postgres_*.go is the engine for PostgreSQL: postgres_open.go opens it, postgres_engine.go
//     has the pool of connections, postgres_tx.go transactions, postgres_retry.go their
//     retries, postgres_commit.go the COMMIT, postgres_background.go the background tasks.
//   - migrate.go applies migrations/sqlite and migrations/postgres.
//   - clock.go, sqlite_clock.go and postgres_clock.go have the clocks by which stores judge
//     the time.
//
// # How a write commits on SQLite
//
// One goroutine owns the only connection that writes. It runs the calls that are waiting,
// and those that arrive while it does, in one transaction, and returns from them after the
// COMMIT that they share, so that one fsync serves many calls. If a call fails after a change, the
// batch is rolled back and each of its calls runs in a transaction of its own. After an
// I/O error, or a COMMIT whose outcome is unknown, the store refuses writes until it is
// opened again (ErrStopped). Nothing is acknowledged before the log of an earlier process
// has been moved into the database.
//
// # How a write commits on PostgreSQL
//
// Each call is a transaction on a pooled connection, which is retried after a
// serialization failure, a deadlock or a lost connection until the patience of the call
// ends. Each transaction first inserts a random id. If the response to its COMMIT is lost, it
// is begun again with the same id: the insert waits for the first transaction to end and
// then conflicts if that was committed. If this cannot be determined in time, the call
// returns database.ErrUnknownOutcome. A COMMIT is never cancelled.
//
// # Isolation
//
// Operations in write are isolated from all others by the engine (SERIALIZABLE in
// PostgreSQL). Operations in writeLocked are isolated by locks: they lock the row of the
// upload, session, channel or blob that they decide on, or, if there may be no row yet,
// its name (tx.lock). PostgreSQL runs them in READ COMMITTED. The two kinds conflict in
// rows: a transaction that writes a row which changed since the transaction began
// waits, and then reads it again or is retried. SQLite has a single writer, so there both
// kinds are the same.
//
// # Invariants of the tables
//
//   - An object key occurs in at most one extent (a unique index).
//   - A content is referenced by one blob or one open upload, or it is in the table garbage,
//     never both: the transaction that removes the reference inserts it into garbage. The
//     extents of a commit with many of them are inserted ahead of it. Their content is
//     then in garbage as staged (stagedFrom), which is never due. The commit deletes that
//     row, or Purge makes it garbage long after the commit would be refused.
//   - The content of an upload becomes that of the blob when the upload is completed, so that
//     no rows are moved. If a part is sent again, its old extents move to a new content that
//     is garbage from the start.
//   - An accepted payment has one sale (a unique index), which is inserted with it and kept
//     until it is folded. What the payment does not buy is the credit of the channel.
//   - What is accepted and not settled is in the one settlement of the channel, expired
//     or not, until it is collected or replaced by a newer one.
//   - The rows of usage of an owner and its row of usage_sums add up to the sizes and numbers
//     of its blobs and of the parts of its open uploads, the number of those uploads, the
//     bytes of the names and the number of its channels. A transaction that changes one of
//     them inserts the difference.
//   - The rows of account_deltas of an account and its row of account_sums add up to the
//     number and the sizes of its blobs. Triggers on blobs keep this.
package sqlstore
