package metastore

import "context"

// Used is what an owner has stored.
type Used struct {
	Bytes   int64 // of the owner's blobs, expired ones included until they are purged, and of the parts of open uploads
	Uploads int64 // open uploads
	Objects int64 // number of the same blobs and parts
	Names   int64 // bytes of the names and the Metadata of the same blobs and of the open uploads

	Channels int64 // ever opened: channels are retained forever
}

// RowCharge is what each blob, each open upload and each part of one is charged in addition to
// its bytes and those of its name and Metadata, in bytes. With its extent and its indexes it takes 0.4 KB in
// SQLite and 0.8 KB in PostgreSQL, plus the account, the content type and what is retained of
// it afterwards.
const RowCharge = 1024

// Charge returns what a blob or an upload of that name and Metadata is charged in addition to
// its content, in bytes. For a part both are empty.
func Charge(name, metadata string) int64 { return RowCharge + int64(len(name)+len(metadata)) }

// Stored returns what counts towards Limits.StoredBytes.
func (u Used) Stored() int64 { return u.Bytes + u.Names + RowCharge*(u.Objects+u.Uploads) }

// Usage counts what each owner has stored. A blob or upload counts to the Owner that it was
// written with until it is replaced, deleted, aborted or purged, by any caller. Garbage counts
// to no owner. A channel counts forever. Every method that adds or removes a blob, an upload, a
// part or a channel counts the difference in its own transaction, so the sum is exact, and
// concurrent writers of one owner do not wait for each other.
type Usage interface {
	// Usage returns what an owner has stored. An unknown owner has stored nothing.
	Usage(ctx context.Context, owner string) (Used, error)
}
