// Package actions is the contract for the record of administrative actions: who changed which key,
// limit, alias or rule, from where, and its state before and after. An action is recorded in the
// transaction that makes it. Package database has the rules about transactions, waiting and time,
// package sqlstore implements the contract, and package keystest has its conformance suite.
package actions

import (
	"context"
	"errors"
	"time"
)

// ErrStale means that keys have changed since it was decided that an act is permitted. The call had
// no effect; the caller decides again.
var ErrStale = errors.New("actions: keys have changed since it was decided")

// ErrTooMany means that an act would exceed one of its Bounds. The call had no effect.
var ErrTooMany = errors.New("that would be too many")

// By is who acts, and from where.
type By struct {
	Key   string // the key's id; "": the operator at the database, or anybody on a local instance
	Group string // the key's group
	From  string // the client's address, or user@host
}

// Action is an action that was made.
type Action struct {
	// ID is set by the store. A later action has a greater one (bytewise); actions of one
	// microsecond are in any order.
	ID   string
	Time time.Time // set by the store
	By

	Name    string // such as "key.create"
	Subject string // the changed thing's id or name
	// Accounts are the accounts that it concerns, if it concerns no others; nil otherwise.
	Accounts []string
	// Before and After are the thing before and after, in JSON without secrets; nil: there was
	// none.
	Before, After []byte
}

// Act is an action that is about to be made. A store's method that takes one records it in the
// transaction that has the effect; a call without effect records nothing. A nil Act is not
// recorded.
type Act struct {
	Action

	// Keys is the keys.Store.KeysVersion at which it was decided, by the keys as they were then,
	// that the action is permitted. If keys have changed since, the method has no effect and
	// returns ErrStale.
	Keys int64
	// Bounds are how many rows an act may leave behind that adds one.
	Bounds Bounds
}

// Bounds are numbers of rows. 0: any number.
type Bounds struct {
	Keys      int // in the key's group, also expired and revoked ones
	Places    int // with settings, in the account
	AllPlaces int // with settings
	Webhooks  int // in the key's group
	Acts      int // that the group's keys have made within the last 24 hours
}

// Store holds the actions.
type Store interface {
	// ListActions returns up to limit actions, the newest first, beginning with the newest one that
	// is older than the action with the id before, or with the newest of all if before is empty.
	ListActions(ctx context.Context, before string, limit int) ([]Action, error)

	// PurgeActions deletes up to limit actions that were made more than keep ago, and returns how
	// many. It returns ErrClock, without effect, while Clock.DeletionErr is not nil.
	PurgeActions(ctx context.Context, keep time.Duration, limit int) (int, error)
}
