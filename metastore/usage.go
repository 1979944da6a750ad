package metastore

import "context"

// Used is what an owner has stored.
type Used struct {
	Bytes   int64 // of the owner's blobs, expired ones included until they are purged, and of the parts of open uploads
	Uploads int64 // open uploads
	Objects int64 // number of the same blobs and parts
	Names   int64 // bytes of the names and the Metadata of the same blobs and of the open uploads

	Channels int64 // ever opened: channels are retained forever

	// Retained is what the owner's garbage, the outcomes of the owner's uploads and the
	// recorded requests of the owner are charged, in bytes: GarbageCharge, OutcomeCharge and
	// RowCharge.
	Retained int64
}

// RowCharge is what each blob, each open upload and each part of one is charged in addition to its
// bytes and those of its name and Metadata, in bytes. With its extent and its indexes it takes 0.4
// KB in SQLite and 0.8 KB in PostgreSQL, plus the account, the content type and what is retained of
// it afterwards.
const RowCharge = 1024

// Charge returns what a blob or an upload of that name and Metadata is charged in addition to
// its content, in bytes. For a part both are empty.
func Charge(name, metadata string) int64 { return RowCharge + int64(len(name)+len(metadata)) }

// GarbageCharge returns what a content that is garbage is charged, in bytes. parts is the number of
// parts of an aborted upload. It is at most what the blob, the upload or the part was charged
// before.
func GarbageCharge(bytes, parts int64) int64 { return bytes + RowCharge*max(1, parts) }

// OutcomeCharge returns what the outcome of an upload of a blob of that name is charged, in bytes,
// from the beginning of the upload until it is forgotten.
func OutcomeCharge(name string) int64 { return Charge(name, "") }

// Stored returns what counts towards Limits.StoredBytes.
func (u Used) Stored() int64 { return u.Bytes + u.Names + RowCharge*(u.Objects+u.Uploads) }

// Occupied returns what counts towards Limits.OccupiedBytes: all that an owner keeps the stores
// from freeing. Deletions, aborts, completions and purges never increase it.
func (u Used) Occupied() int64 { return u.Stored() + u.Retained }

// Usage counts what each owner has stored. A blob or upload counts to the Owner that it was written
// with until it is replaced, deleted, aborted or purged, by any caller. From then on its content
// counts as garbage of the same Owner until it is dropped; a content that is stored ahead of a
// commit counts as garbage until the commit. The outcome of an upload counts from the upload's
// beginning until Purge forgets it, and a request that was recorded with an Idempotency.Owner until
// Purge forgets that. A channel counts forever. Every method that adds or removes one of them
// counts the difference in its own transaction, so the sum is exact, and concurrent writers of one
// owner do not wait for each other.
type Usage interface {
	// Usage returns what an owner has stored. An unknown owner has stored nothing.
	Usage(ctx context.Context, owner string) (Used, error)
}
