// Package keys is the contract for API keys and the limits of their groups. Its promises about
// transactions, waiting and time are those of package database.
package keys

import (
	"context"
	"errors"
	"time"
)

// ErrGroupLimits means that the group of a key has other limits.
var ErrGroupLimits = errors.New("keys: the group has other limits")

// Key is an API key. Its secret is never stored. ID, Label, Scopes, Accounts and Group are
// stored as bytes.
type Key struct {
	ID       string    // created by the caller; not a secret, not empty
	Hash     [32]byte  // SHA-256 of the secret
	Label    string    // a note of its creator; may be empty
	Scopes   []string  // what it permits; the store does not interpret them
	Accounts []string  // for which it is valid; nil: all; empty: none
	Group    string    // names the keys that share limits, and owns what they store; not empty
	Limits   Limits    // of the group
	Created  time.Time // set by the store
	Expires  time.Time // zero: never
	Revoked  time.Time // set by the store; zero: not revoked
}

// Store stores the API keys. A key is retained forever, also after it expired or was revoked, so
// that its past actions can be attributed.
type Store interface {
	// CreateKey stores a new key and returns it as stored; k.Revoked is ignored. The first
	// key of a group sets the limits of the group. For a further key k.Limits
	// must be zero or equal to them, and the returned key has those of the group. It returns
	// ErrGroupLimits if they differ, or ErrExists if the id is in use.
	CreateKey(ctx context.Context, k Key) (Key, error)

	// Key returns a key, also an expired or revoked one, or ErrNotFound.
	Key(ctx context.Context, id string) (Key, error)

	// ListKeys returns up to limit keys, also expired and revoked ones, sorted by the bytes
	// of their ids, starting after the id after, or with the first if after is empty.
	ListKeys(ctx context.Context, after string, limit int) ([]Key, error)

	// UpdateKey changes a key and returns it as stored. change is called with the key and may
	// change its Label, Scopes, Accounts and Expires; other changes are ignored. It is called
	// within the transaction, possibly several times, and must have no other effect: of
	// concurrent updates none is lost. A revoked key remains revoked. It returns ErrNotFound if
	// there is no such key.
	UpdateKey(ctx context.Context, id string, change func(k *Key)) (Key, error)

	// GroupLimits returns the limits of a group, or ErrNotFound if it never had a key.
	GroupLimits(ctx context.Context, group string) (Limits, error)

	// SetGroupLimits changes the limits of a group, those of all its keys, and returns them as
	// stored. change is called like that of UpdateKey. It returns ErrNotFound if the group never
	// had a key.
	SetGroupLimits(ctx context.Context, group string, change func(l *Limits)) (Limits, error)

	// RevokeKey revokes a key permanently and returns it. Repeated, it has no effect:
	// Revoked remains the time of the first call. It returns ErrNotFound if there is no such
	// key.
	RevokeKey(ctx context.Context, id string) (Key, error)

	// KeysVersion returns a number that changes with every CreateKey, UpdateKey, SetGroupLimits and
	// RevokeKey that has an effect, through any handle and in any process. Keys that were read
	// after a call that returned some number are up to date at each later call that returns the
	// same number.
	KeysVersion(ctx context.Context) (int64, error)
}
