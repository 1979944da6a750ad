// Package metastore is the contract for everything that sluice remembers
// beside the bytes themselves: blobs, uploads, sessions, channels, what waits
// to be deleted, and the few facts about the instance.
//
// Every method is one atomic and durable transaction: when it returns nil, its
// effect survives a power cut and every later call on any handle sees it; when
// it returns an error other than ErrUnknownOutcome, it had no effect. Methods
// may be called at once from many goroutines and, where the engine allows it,
// from many processes. No transaction object leaves an implementation; where a
// decision must be taken inside the transaction, the caller hands in a Precondition.
//
// A context that ends before a call's mutation has begun makes the call fail
// with the context's error; once it has begun, the call runs to its end.
//
// A call waits for its engine for a bounded time: what the patience of its
// context (WithPatience) has left, or Patience. A call that has waited for others
// for so long fails with ErrBusy and never begins, and one whose commit was not
// answered in that time is ErrUnknownOutcome. A read that serves no request may
// take longer.
//
// Times are kept to the microsecond, in UTC. Every rule below that speaks of now
// means the time of Clock, read inside the transaction.
package metastore

import (
	"errors"
	"fmt"
	"time"
)

// Errors that a Store promises. They arrive wrapped; compare with errors.Is.
var (
	// ErrNotFound: no such blob, upload, session, channel or key (any more).
	ErrNotFound = errors.New("metastore: not found")
	// ErrExpired: the blob or session is there, but its time is over.
	ErrExpired = errors.New("metastore: expired")
	// ErrExists: what was to be created exists already.
	ErrExists = errors.New("metastore: exists")
	// ErrAborted: the upload was aborted, by a caller or for being idle.
	ErrAborted = errors.New("metastore: upload aborted")
	// ErrCommitted: the upload was completed before.
	ErrCommitted = errors.New("metastore: upload committed")
	// ErrRevisionMismatch: the upload changed since the revision that was given.
	ErrRevisionMismatch = errors.New("metastore: upload changed meanwhile")
	// ErrStaleExtent: an extent is older than MaxExtentAge at its commit.
	ErrStaleExtent = errors.New("metastore: extent too old to commit")
	// ErrExhausted: the session has no chunksets left.
	ErrExhausted = errors.New("metastore: session exhausted")
	// ErrNoChannel: no channel of these parties, in Payment's four members.
	ErrNoChannel = errors.New("metastore: no such channel")
	// ErrChannelClosed: the channel was closed.
	ErrChannelClosed = errors.New("metastore: channel closed")
	// ErrChannelExpired: the channel's time is over.
	ErrChannelExpired = errors.New("metastore: channel expired")
	// ErrStalePayment: sequence or amount is not above the accepted one. It
	// arrives as a *StaleError.
	ErrStalePayment = errors.New("metastore: payment is stale")
	// ErrInsufficientFunds: the payment exceeds the deposit, or does not cover what it is
	// to pay. It arrives as a *InsufficientFundsError.
	ErrInsufficientFunds = errors.New("metastore: funds do not suffice")
	// ErrUnsettledLimit: too much would be accepted and not settled yet.
	ErrUnsettledLimit = errors.New("metastore: unsettled limit reached")
	// ErrAmountOverflow: an amount would exceed 2^63-1.
	ErrAmountOverflow = errors.New("metastore: amount too large")
	// ErrIdempotencyReuse: the idempotency key was used for another request.
	ErrIdempotencyReuse = errors.New("metastore: idempotency key reused")
	// ErrGroupLimits: the group of the key has other limits than were given.
	ErrGroupLimits = errors.New("metastore: the group has other limits")
	// ErrNoSpace: the engine's disk is full. Nothing was stored.
	ErrNoSpace = errors.New("metastore: no space left")
	// ErrUnavailable: the engine cannot be reached. The call had no effect.
	ErrUnavailable = errors.New("metastore: database unavailable")
	// ErrBusy: the call waited for others for longer than its patience, or would
	// have had to. It had no effect.
	ErrBusy = errors.New("metastore: waited too long for the database")
	// ErrUnknownOutcome: the engine did not say whether the transaction was
	// committed. The caller looks, or repeats what is safe to repeat.
	ErrUnknownOutcome = errors.New("metastore: outcome unknown")
	// ErrClock: it is not certain enough what time it is to delete anything for its
	// age.
	ErrClock = errors.New("metastore: the time is not certain")
	// ErrNewer: the database was written by a newer version of the program.
	ErrNewer = errors.New("metastore: database is newer than this program")
	// ErrOlder: the database was written by an older version of the program, and
	// was not to be changed.
	ErrOlder = errors.New("metastore: database is older than this program: start the server once to bring it up to date")
)

// StaleError is ErrStalePayment with the bytes that prove what was accepted.
type StaleError struct{ Stored []byte }

// Error gives the text of ErrStalePayment.
func (*StaleError) Error() string { return ErrStalePayment.Error() }

// Unwrap gives ErrStalePayment.
func (*StaleError) Unwrap() error { return ErrStalePayment }

// InsufficientFundsError is ErrInsufficientFunds with the amounts, in units of the asset.
type InsufficientFundsError struct{ Required, Available int64 }

// Error tells both amounts.
func (e *InsufficientFundsError) Error() string {
	return fmt.Sprintf("%s: %d required, %d available", ErrInsufficientFunds, e.Required, e.Available)
}

// Unwrap gives ErrInsufficientFunds.
func (*InsufficientFundsError) Unwrap() error { return ErrInsufficientFunds }

// The size of an extent, how long things are remembered, and the age rules of DESIGN "Order of
// writes": because a commit refuses extents older than MaxExtentAge and the
// orphan sweep spares those younger than four times that, the two never meet.
const (
	// MaxExtentSize is the greatest length of an extent, in bytes.
	MaxExtentSize = 64 << 20
	// MaxExtentAge is the greatest age of an extent that may still be committed.
	MaxExtentAge = 12 * time.Hour
	// ExpiredBlobGrace is how long an expired blob answers ErrExpired; after
	// that it is ErrNotFound and Purge removes it.
	ExpiredBlobGrace = 24 * time.Hour
	// UploadIdleLimit is how long an open upload may go without a part.
	UploadIdleLimit = 24 * time.Hour
	// UploadRetention is how long the outcome of an ended upload is remembered.
	UploadRetention = 7 * 24 * time.Hour
	// SessionRetention is how long a session is remembered after its expiry.
	SessionRetention = 30 * 24 * time.Hour
	// SaleRetention is how long a sale is remembered that was not made to a session;
	// afterwards it counts in a sum of its channel. It is beyond every return.
	SaleRetention = 30 * 24 * time.Hour
	// IdempotencyRetention is how long an idempotency key is remembered.
	IdempotencyRetention = 24 * time.Hour
)

// The limits of the verbs that handle many contents at once: they keep a
// transaction short.
const (
	// MaxSmallExtents is the greatest number of extents of a small content.
	MaxSmallExtents = 16
	// MaxFindings is the greatest number of sentences of an audit.
	MaxFindings = 1000
	// MaxContents is the greatest number of contents in a call.
	MaxContents = 1000
)

// Store is everything that is remembered.
type Store interface {
	Blobs
	Uploads
	Sessions
	Channels
	Keys
	Usage
	Garbage
	Maintenance
	Properties
	Leases
	Nodes
	Clock
}
