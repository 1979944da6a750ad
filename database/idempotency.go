package database

import (
	"errors"
	"time"
)

// Idempotency identifies a request. If the request succeeds, the transaction that has the effect
// records it for IdempotencyRetention. A call with the same Scope, Key and Hash then returns the
// recorded outcome and has no effect; a call with another Hash returns ErrIdempotencyReuse. Among
// concurrent calls one has the effect, and the rest return its outcome.
type Idempotency struct {
	Scope string   // the operation, its resource and the caller
	Key   string   // as the client sent it
	Hash  [32]byte // the request's
	Owner string   // the owner who is charged for the record; empty: none
}

// ErrIdempotencyReuse means that the idempotency key was used for a different request.
var ErrIdempotencyReuse = errors.New("database: idempotency key reused")

// IdempotencyRetention is how long an idempotency key is retained.
const IdempotencyRetention = 24 * time.Hour
