// Package meta implements metastore.Store on a database.
//
// The operations are in one file for each kind of row: blobs.go, uploads.go, extents.go, list.go,
// accounts.go, garbage.go, usage.go; names.go has the names of blobs as columns. purge.go,
// census.go and audit.go are the part of this room in the database's upkeep. blob_cache.go has the
// rows of blobs that are read often, on SQLite. The SQL is the same for both engines.
//
// # The tables' invariants
//
//   - An object key occurs in at most one extent (a unique index).
//   - A content is referenced by one blob or one open upload, or it is in the table garbage, never
//     both: the transaction that removes the reference inserts it into garbage. The extents of a
//     commit with many of them are inserted ahead of it. Their content is then in garbage as staged
//     (stagedFrom), which is never due. The commit deletes that row, or PurgeStaged makes it
//     garbage long after the commit would be refused.
//   - The content of an upload becomes the blob's when the upload is completed, so that no
//     rows are moved. If a part is sent again, its old extents move to a new content that is
//     garbage from the start.
//   - The rows of account_deltas of an account and its row of account_sums add up to the number and
//     the sizes of its blobs. Triggers on blobs keep this; on PostgreSQL
//     the statements that insert a blob count it.
package meta
