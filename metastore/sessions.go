package metastore

import (
	"context"
	"time"
)

// Idempotency asks that a success be remembered, in the transaction that has
// the effect, for IdempotencyRetention: the same Scope and Key with the same Hash
// then gives the first outcome again and has no effect; with another Hash it is
// ErrIdempotencyReuse. Two at once: one has the effect, the other its outcome.
type Idempotency struct {
	Scope string   // the operation, its resource and the caller
	Key   string   // as the client sent it
	Hash  [32]byte // of the request
}

// Session is a count of chunksets. Ledger: Used + Left = Total, and of what is
// Left when it expires nothing can be used any more (it is forfeited).
type Session struct {
	ID           string // unguessable, made by the caller
	UserIdentity string
	Channel      string // id of the channel that it was first bought over; empty: granted
	Total        int64  // chunksets bought and granted, ever
	Left         int64  // chunksets not yet used
	Used         int64  // chunksets used and not returned

	Created time.Time // set by the store
	Expires time.Time
}

// Sessions are the counters. A session is remembered for SessionRetention after
// its expiry and then ErrNotFound.
type Sessions interface {
	// CreateSession stores a fresh session that was not paid for and returns it
	// as stored, or, when idem was seen before, the session as it was first
	// returned. Used and Channel are ignored. idem may be nil.
	CreateSession(ctx context.Context, s Session, idem *Idempotency) (Session, error)

	// Session gives a session, expired or not.
	Session(ctx context.Context, id string) (Session, error)

	// UseSession takes exactly n chunksets (at least 1), or none, and returns the
	// session as it then is; Left never goes below zero, whatever runs at once.
	// ErrNotFound, ErrExpired, ErrExhausted; with ErrExhausted the session as
	// it is comes beside the error. idem may be nil.
	UseSession(ctx context.Context, id string, n int64, idem *Idempotency) (Session, error)

	// ChargeSession is UseSession for a read. charge is a fresh, unguessable name
	// by which ReturnCharge finds it, should its outcome be ErrUnknownOutcome.
	ChargeSession(ctx context.Context, id string, n int64, charge string) (Session, error)

	// ReturnCharge gives all chunksets back that ChargeSession took under this
	// name, if it did, and returns the session as it then is, also when it has
	// expired. Once it has returned nil, such a ChargeSession does not count and
	// never will. Repeated, it has no effect. It is for a charge whose outcome
	// was ErrUnknownOutcome, on any handle, until IdempotencyRetention after the
	// charge; of other charges it may have no effect. ErrNotFound of the session.
	ReturnCharge(ctx context.Context, id string, charge string) (Session, error)

	// ReturnChunksets gives n chunksets back that were used and of which nothing
	// was served, and returns the session as it then is; also when the session
	// has expired. request names this return: repeated, it has no effect.
	// ErrNotFound; an error when more would be returned than was used.
	ReturnChunksets(ctx context.Context, id string, n int64, request string) (Session, error)
}
