// Package keys is the contract for API keys and their groups' limits. Package database has the
// rules about transactions, waiting and time. Package sqlstore implements it; package keystest is
// the conformance suite that an implementation must pass.
package keys

import (
	"context"
	"errors"
	"time"

	"sluice/access/actions"
	"sluice/database"
)

// ErrGroupLimits means that a key's group has other limits.
var ErrGroupLimits = errors.New("keys: the group has other limits")

// Key is an API key. Its secret is never stored, and an S3 secret only as its creator has sealed
// it. ID, Label and Group are stored as bytes.
type Key struct {
	ID       string    // created by the caller; not a secret, not empty
	Hash     [32]byte  // the secret's SHA-256
	Label    string    // its creator's note; may be empty
	Grants   []Grant   // which operations it allows, and on which blobs
	Group    string    // the keys that share limits; as owner it is charged for their blobs; not empty
	Limits   Limits    // the group's
	S3Secret []byte    // sealed; the store does not interpret it; nil: the key has none
	Created  time.Time // set by the store
	Expires  time.Time // zero: never
	Revoked  time.Time // set by the store; zero: not revoked
}

// Group is a group of keys.
type Group struct {
	Name   string
	Limits Limits
}

// Store stores the API keys. Its methods that change something record an act, which may be nil, and
// return actions.ErrStale if it was decided by other keys. It retains a key forever, even after it
// expired or was revoked, so that its past actions can be attributed.
type Store interface {
	// CreateKey stores a new key and returns it as stored; k.Revoked is ignored. A group's first
	// key sets the group's limits. For a further key k.Limits must be zero or equal to them, and
	// the returned key has the group's limits. With once, a repeated call returns the key of the
	// first one, as it is now. It returns ErrGroupLimits if they differ, ErrExists if the id is in
	// use, database.ErrIdempotencyReuse, or actions.ErrStale.
	CreateKey(ctx context.Context, k Key, act *actions.Act, once *database.Idempotency) (Key, error)

	// Key returns a key, also an expired or revoked one, or ErrNotFound.
	Key(ctx context.Context, id string) (Key, error)

	// ListKeys returns up to limit keys, also expired and revoked ones, sorted by id (bytewise),
	// starting after the id after, or with the first if after is empty.
	ListKeys(ctx context.Context, after string, limit int) ([]Key, error)

	// UpdateKey changes a key and returns it as stored. It calls change with the key. change may
	// change Label, Grants, Hash, S3Secret and Expires; UpdateKey ignores other changes. It
	// calls change within the transaction, possibly several times, so that no concurrent update is
	// lost; change must have no other effect. If change returns an error, UpdateKey has no effect
	// and returns it. A revoked key remains revoked. It returns ErrNotFound if there is no such
	// key.
	UpdateKey(ctx context.Context, id string, change func(k *Key) error, act *actions.Act) (Key, error)

	// GroupLimits returns a group's limits, or ErrNotFound if it never had a key.
	GroupLimits(ctx context.Context, group string) (Limits, error)

	// SetGroupLimits changes a group's limits, which all its keys share, and returns them as
	// stored. It calls change as UpdateKey does. It returns ErrNotFound if the group never had a
	// key.
	SetGroupLimits(ctx context.Context, group string, change func(l *Limits), act *actions.Act) (Limits, error)

	// ListGroups returns up to limit groups that had a key, sorted by name (bytewise), with names
	// greater than after.
	ListGroups(ctx context.Context, after string, limit int) ([]Group, error)

	// RevokeKey revokes a key permanently and returns it. Repeated, it has no effect:
	// Revoked remains the first call's time. It returns ErrNotFound if there is no such
	// key.
	RevokeKey(ctx context.Context, id string, act *actions.Act) (Key, error)

	// KeysVersion returns a number that changes with every CreateKey, UpdateKey, SetGroupLimits and
	// RevokeKey that has an effect, through any handle and in any process. If KeysVersion returns
	// the same number twice, keys that were read after the first call are up to date at the second,
	// even if the database was set back between them.
	KeysVersion(ctx context.Context) (int64, error)
}
