package metastore

import (
	"context"
	"time"
)

// Key is an API key. The secret itself is never stored. ID, Label, Scopes,
// Accounts and Group are stored as bytes.
type Key struct {
	ID       string    // made by the caller; not a secret, not empty
	Hash     [32]byte  // SHA-256 of the secret
	Label    string    // what its maker calls it; may be empty
	Scopes   []string  // what it may do; their meaning is the caller's
	Accounts []string  // the accounts for which it may do so; nil: all; without entries: none
	Group    string    // the keys that share limits; the owner of what they store; not empty
	Limits   Limits    // of the group
	Created  time.Time // set by the store
	Expires  time.Time // zero: never
	Revoked  time.Time // set by the store; zero: not revoked
}

// Keys are the API keys. A key stays for ever, also when it has expired or was
// revoked: what it did can be told from what it was.
type Keys interface {
	// CreateKey stores a fresh key and returns it as stored; k.Revoked is
	// ignored. The first key of a group gives the group its limits, for good; for
	// a further one k.Limits must be zero or the same (ErrGroupLimits), and those
	// of the group are returned. ErrExists when the id is taken.
	CreateKey(ctx context.Context, k Key) (Key, error)

	// Key gives a key, expired or revoked ones too. ErrNotFound.
	Key(ctx context.Context, id string) (Key, error)

	// ListKeys gives up to limit keys by id, in byte order, beginning behind
	// after (empty: at the first); expired and revoked ones too.
	ListKeys(ctx context.Context, after string, limit int) ([]Key, error)

	// RevokeKey ends a key for good and returns it. Repeated, it changes
	// nothing: Revoked stays the first time. ErrNotFound.
	RevokeKey(ctx context.Context, id string) (Key, error)

	// KeysVersion gives a number that is another one after every CreateKey and
	// RevokeKey that changed something, over whatever handle and in whatever
	// process. Keys that were read after a call gave a number are up to date at
	// each later call that gives the same one.
	KeysVersion(ctx context.Context) (int64, error)
}

// Used is what an owner takes up.
type Used struct {
	Bytes   int64 // of his blobs, also expired ones until they are purged, and of the parts of his open uploads
	Uploads int64 // open ones
	Objects int64 // the same blobs and parts, counted
	Names   int64 // the bytes of the names of the same blobs and of the open uploads

	Channels int64 // all that he ever opened: they are remembered for ever
}

// RowCharge is what each blob, each open upload and each part of one is charged
// beside its bytes and those of its name, in bytes: with its extent and its indexes
// it takes 0.4 KB in SQLite and 0.8 KB in PostgreSQL, and an account, a content type
// and what is remembered of it afterwards beside that.
const RowCharge = 1024

// Charge is what a blob or an upload of that name is charged beside its content, and
// with an empty name a part, in bytes.
func Charge(name string) int64 { return RowCharge + int64(len(name)) }

// Stored is what counts towards Limits.StoredBytes.
func (u Used) Stored() int64 { return u.Bytes + u.Names + RowCharge*(u.Objects+u.Uploads) }

// Usage counts what each owner takes up. A blob or upload belongs to the Owner
// that it was written with; its bytes are given back to that one when it is
// replaced, deleted, aborted or purged, whoever does it. Garbage is nobody's. A
// channel counts from its opening on, for ever. Every verb that writes or removes
// a blob, an upload, a part or a channel counts the difference in its own transaction, so that the sum is exact; no two writers of
// one owner wait for each other.
type Usage interface {
	// Usage gives what an owner takes up: of an unknown one, nothing.
	Usage(ctx context.Context, owner string) (Used, error)
}
