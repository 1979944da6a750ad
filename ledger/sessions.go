package ledger

import (
	"context"
	"time"

	"sluice/database"
)

// Session is a prepaid or granted count of chunksets. The store guarantees that Used + Left =
// Total. Chunksets left when the session expires are forfeited.
type Session struct {
	ID           string // unguessable, created by the caller
	UserIdentity string
	Channel      string // id of the channel over which it was first bought; empty: granted
	Total        int64  // chunksets ever bought and granted
	Left         int64  // chunksets not used yet
	Used         int64  // chunksets used and not returned

	Created time.Time // set by the store
	Expires time.Time
}

// Sessions stores the sessions. A session is retained for SessionRetention after its expiry;
// after that all methods return ErrNotFound.
type Sessions interface {
	// CreateSession stores a new session that was not paid for and returns it as stored, or,
	// if idem was recorded before, as it was first returned. s.Used and s.Channel are
	// ignored. idem may be nil.
	CreateSession(ctx context.Context, s Session, idem *database.Idempotency) (Session, error)

	// Session returns a session, expired or not, or ErrNotFound.
	Session(ctx context.Context, id string) (Session, error)

	// UseSession takes exactly n chunksets, or none, and returns the session after that, or, if
	// idem was recorded before, as it was first returned. n must be at least 1. Left never falls
	// below zero, whichever calls are concurrent. It returns ErrNotFound, ErrExpired, or
	// ErrExhausted with the unchanged session. idem may be nil.
	UseSession(ctx context.Context, id string, n int64, idem *database.Idempotency) (Session, error)

	// ChargeSession is UseSession for a read. charge is a new, unguessable name by which
	// ReturnCharge finds the charge if its outcome is ErrUnknownOutcome.
	ChargeSession(ctx context.Context, id string, n int64, charge string) (Session, error)

	// ReturnCharge returns all chunksets that ChargeSession took under this name, if it did, and
	// returns the session after that, expired or not. Once it has returned nil, such a
	// ChargeSession does not count and never will. Repeated, it has no effect. It is meant for a
	// ChargeSession that returned ErrUnknownOutcome and may be called on any handle, until
	// database.IdempotencyRetention after the charge; for other charges it may have no effect. It
	// returns ErrNotFound if there is no such session.
	ReturnCharge(ctx context.Context, id string, charge string) (Session, error)

	// ReturnChunksets returns n chunksets that were used but for which nothing was served,
	// and returns the session after that, expired or not. request identifies the return:
	// repeated with the same request, it has no effect. It returns ErrNotFound, or another
	// error if more would be returned than was used.
	ReturnChunksets(ctx context.Context, id string, n int64, request string) (Session, error)
}
