package metastore

import "context"

// Used counts the things that an owner has stored.
type Used struct {
	Bytes   int64 // in the owner's blobs, expired ones included until they are purged, and in open uploads' parts
	Uploads int64 // open uploads
	Objects int64 // the number of these blobs and parts
	Names   int64 // bytes in these blobs' and the open uploads' names and Metadata

	Channels int64 // ever opened: channels are retained forever

	// Retained is the owner's charge, in bytes, for garbage (GarbageCharge), for uploads' outcomes
	// (OutcomeCharge) and for recorded requests (RowCharge each).
	Retained int64
}

// RowCharge is the charge, in bytes, for each blob, open upload and part, in addition to its
// content, its name and its Metadata. With its extent and its indexes such a row takes 0.4 KB in
// SQLite and 0.8 KB in PostgreSQL, plus the account, the content type and the data that is retained
// afterwards.
const RowCharge = 1024

// Charge returns the charge, in bytes, for a blob or an upload with that name and Metadata, in
// addition to its content. For a part both are empty.
func Charge(name, metadata string) int64 { return RowCharge + int64(len(name)+len(metadata)) }

// GarbageCharge returns the charge, in bytes, for a content that is garbage. parts is an aborted
// upload's number of parts. It is at most the charge for the blob, the upload or the part before.
func GarbageCharge(bytes, parts int64) int64 { return bytes + RowCharge*max(1, parts) }

// OutcomeCharge returns the charge, in bytes, for the outcome of an upload under that name, from
// when the upload begins until Purge forgets it.
func OutcomeCharge(name string) int64 { return Charge(name, "") }

// Stored returns the bytes that count towards keys.Limits.StoredBytes.
func (u Used) Stored() int64 { return u.Bytes + u.Names + RowCharge*(u.Objects+u.Uploads) }

// Occupied returns the bytes that count towards keys.Limits.OccupiedBytes: all that an owner keeps
// the stores from freeing. Deletions, aborts, completions and purges never increase it.
func (u Used) Occupied() int64 { return u.Stored() + u.Retained }

// Usage counts the things that each owner has stored. These count to the Owner with which they were
// written:
//
//   - a blob or an upload, until any caller replaces, deletes, aborts or purges it;
//   - then its content, as garbage, until it is dropped;
//   - a content that is stored ahead of a commit, as garbage, until the commit;
//   - an upload's outcome, from when the upload begins until Purge forgets it;
//   - a request that was recorded with a database.Idempotency.Owner, until Purge forgets it;
//   - a channel, forever.
//
// Every method that adds or removes one of them counts the difference in its own transaction. So
// the sum is exact, and an owner's concurrent writers do not wait for each other.
type Usage interface {
	// Usage returns an owner's usage. An unknown owner has stored nothing.
	Usage(ctx context.Context, owner string) (Used, error)
}
