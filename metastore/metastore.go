// Package metastore defines the contract of the store for everything sluice persists apart
// from the bytes of blobs: blobs, uploads, sessions, channels, keys, garbage and a few
// properties of the instance. Package sqlstore implements it; package metatest is the
// conformance suite that an implementation must pass.
//
// # Transactions
//
// Every method that has an effect is one atomic and durable transaction. When it returns
// nil, the effect survives a power failure and is visible to every later call on any handle.
// When it returns an error other than ErrUnknownOutcome, it had no effect. The only exception
// is stated at Blobs.CommitBlob. No method exposes a transaction; where a decision must be
// made inside one, the caller passes a function such as a Precondition.
//
// "Repeated" in the docs below means that the same call is made again, for example because
// the response to the first one was lost.
//
// # Concurrency
//
// Methods may be called concurrently, from several goroutines and, if the engine permits it,
// from several processes.
//
// # Contexts and waiting
//
// If ctx ends before the effect of a call has begun, the call returns the error of ctx.
// Afterwards the call is completed regardless of ctx.
//
// The time for which a call waits for its engine is bounded by what is left of the patience
// of its context (see WithPatience), or else by Patience. A call that has waited for others
// for that long returns ErrBusy without effect; if the response to its commit does not arrive
// in that time it returns ErrUnknownOutcome. A read that serves no request may take longer.
//
// # Time
//
// Times are stored in UTC with a resolution of one microsecond. In the rules below "now" is
// the time of Clock, read inside the transaction.
//
// # Order of writes
//
// The bytes of an extent that is not inline are stored durably in the byte store before the
// call that makes the extent part of a content, and are deleted only after its content has
// become garbage. An object that no extent refers to is an orphan, and is deleted too. A call
// refuses extents older than MaxExtentAge, and only orphans older than four times MaxExtentAge
// are deleted, so an orphan is never deleted before a call that still could refer to it.
package metastore

import (
	"errors"
	"fmt"
	"time"
)

// Errors that a Store returns. They are wrapped; compare them with errors.Is.
var (
	// ErrNotFound means that the blob, upload, session, channel or key does not exist, or
	// no longer.
	ErrNotFound = errors.New("metastore: not found")
	// ErrExpired means that the blob or session exists but has expired.
	ErrExpired = errors.New("metastore: expired")
	// ErrExists means that what was to be created exists already.
	ErrExists = errors.New("metastore: exists")
	// ErrAborted means that the upload was aborted, by a caller or because it was idle.
	ErrAborted = errors.New("metastore: upload aborted")
	// ErrCommitted means that the upload is complete already.
	ErrCommitted = errors.New("metastore: upload committed")
	// ErrRevisionMismatch means that the upload has changed since the revision that the
	// caller passed.
	ErrRevisionMismatch = errors.New("metastore: upload changed meanwhile")
	// ErrStaleExtent means that an extent is older than MaxExtentAge.
	ErrStaleExtent = errors.New("metastore: extent too old to commit")
	// ErrExhausted means that the session has fewer chunksets left than requested.
	ErrExhausted = errors.New("metastore: session exhausted")
	// ErrNoChannel means that there is no channel for the Sender, Receiver, Asset and
	// PaymentChannelID of a payment.
	ErrNoChannel = errors.New("metastore: no such channel")
	// ErrChannelClosed means that the channel was closed.
	ErrChannelClosed = errors.New("metastore: channel closed")
	// ErrChannelExpired means that the channel has expired.
	ErrChannelExpired = errors.New("metastore: channel expired")
	// ErrChannelStopped means that nothing is sold over the channel for now. The error is a
	// *StoppedError.
	ErrChannelStopped = errors.New("metastore: channel stopped")
	// ErrOutdated means that the channel must be read from the chain again.
	ErrOutdated = errors.New("metastore: the channel was read too long ago")
	// ErrStalePayment means that the sequence or the amount of a payment is not above the
	// accepted one. The error is a *StaleError.
	ErrStalePayment = errors.New("metastore: payment is stale")
	// ErrInsufficientFunds means that a payment exceeds the deposit, or does not cover its
	// purpose. The error is an *InsufficientFundsError.
	ErrInsufficientFunds = errors.New("metastore: insufficient funds")
	// ErrUnsettledLimit means that the payment would make the accepted but unsettled amount
	// too large. The error is an *UnsettledLimitError.
	ErrUnsettledLimit = errors.New("metastore: unsettled limit reached")
	// ErrNothingExpired means that there is no expired payment to renew.
	ErrNothingExpired = errors.New("metastore: no payment over the channel has expired")
	// ErrAmountOverflow means that an amount would exceed 2^63-1.
	ErrAmountOverflow = errors.New("metastore: amount too large")
	// ErrIdempotencyReuse means that the idempotency key was used for a different request.
	ErrIdempotencyReuse = errors.New("metastore: idempotency key reused")
	// ErrGroupLimits means that the group of a key has other limits.
	ErrGroupLimits = errors.New("metastore: the group has other limits")
	// ErrNoSpace means that the disk of the engine is full. Nothing was stored.
	ErrNoSpace = errors.New("metastore: no space left")
	// ErrUnavailable means that the engine cannot be reached. The call had no effect.
	ErrUnavailable = errors.New("metastore: database unavailable")
	// ErrBusy means that the call has waited for others for longer than its patience, or
	// would have had to. It had no effect.
	ErrBusy = errors.New("metastore: waited too long for the database")
	// ErrUnknownOutcome means that the engine did not report whether the transaction was
	// committed. The caller must query the state, or repeat the call if that is safe.
	ErrUnknownOutcome = errors.New("metastore: outcome unknown")
	// ErrClock means that the current time is too uncertain to delete anything because of
	// its age.
	ErrClock = errors.New("metastore: the time is not certain")
	// ErrNewer means that the database was written by a newer version of the program.
	ErrNewer = errors.New("metastore: database is newer than this program: use the version of sluice that wrote it, or a newer one")
	// ErrOlder means that the database was written by an older version of the program and
	// the caller did not permit to upgrade it.
	ErrOlder = errors.New("metastore: database is older than this program: start the server once to bring it up to date")
)

// StaleError is ErrStalePayment with the bytes of the accepted micropayment.
type StaleError struct{ Stored []byte }

// Error returns the text of ErrStalePayment.
func (*StaleError) Error() string { return ErrStalePayment.Error() }

// Unwrap returns ErrStalePayment.
func (*StaleError) Unwrap() error { return ErrStalePayment }

// StoppedError is ErrChannelStopped with the reason.
type StoppedError struct{ Reason string }

// Error returns a sentence with the reason.
func (e *StoppedError) Error() string { return "nothing is sold over the channel now: " + e.Reason }

// Unwrap returns ErrChannelStopped.
func (*StoppedError) Unwrap() error { return ErrChannelStopped }

// UnsettledLimitError is ErrUnsettledLimit with the selling limit of the channel, what is unsettled before the payment,
// and the part of that which can be collected only after a renewal, in units of the asset.
type UnsettledLimitError struct{ Limit, Unsettled, Expired int64 }

// Error returns a sentence with the amounts.
func (e *UnsettledLimitError) Error() string {
	return fmt.Sprintf("%s: the limit is %d, and %d are unsettled, of which %d have expired", ErrUnsettledLimit, e.Limit, e.Unsettled, e.Expired)
}

// Unwrap returns ErrUnsettledLimit.
func (*UnsettledLimitError) Unwrap() error { return ErrUnsettledLimit }

// InsufficientFundsError is ErrInsufficientFunds with the amounts, in units of the asset.
type InsufficientFundsError struct{ Required, Available int64 }

// Error returns a sentence with both amounts.
func (e *InsufficientFundsError) Error() string {
	return fmt.Sprintf("%s: %d required, %d available", ErrInsufficientFunds, e.Required, e.Available)
}

// Unwrap returns ErrInsufficientFunds.
func (*InsufficientFundsError) Unwrap() error { return ErrInsufficientFunds }

const (
	// MaxExtentSize is the greatest length of an extent, in bytes.
	MaxExtentSize = 64 << 20
	// MaxExtentAge is the greatest age at which an extent may be committed; see the package
	// documentation about the order of writes.
	MaxExtentAge = 12 * time.Hour
	// MaxLedgerAhead is by how much the ledger of a fullnode may be ahead of the store's clock. The time of one that
	// is further ahead is wrong.
	MaxLedgerAhead = time.Minute
	// ExpiredBlobGrace is for how long an expired blob is reported as ErrExpired. After that
	// it is ErrNotFound, and Purge removes it.
	ExpiredBlobGrace = 24 * time.Hour
	// UploadIdleLimit is how long an upload stays open after its last part was stored, or,
	// without parts, after it began.
	UploadIdleLimit = 24 * time.Hour
	// UploadRetention is how long an upload is retained after it ended.
	UploadRetention = 7 * 24 * time.Hour
	// SessionRetention is how long a session is retained after it expired.
	SessionRetention = 30 * 24 * time.Hour
	// SaleRetention is how long a sale that was not made to a session is retained; then it
	// becomes part of a sum of its channel. It is longer than anything can be returned.
	SaleRetention = 30 * 24 * time.Hour
	// IdempotencyRetention is how long an idempotency key is retained.
	IdempotencyRetention = 24 * time.Hour
)

// Limits of single calls, which keep transactions short.
const (
	// MaxSmallExtents is the greatest number of extents of a small content.
	MaxSmallExtents = 16
	// MaxFindings is the greatest number of sentences that Audit returns.
	MaxFindings = 1000
	// MaxContents is the greatest number of contents that may be passed to a call.
	MaxContents = 1000
)

// Store is the whole contract. Consumers should require only the interfaces they use.
type Store interface {
	Blobs
	Accounts
	Uploads
	Sessions
	Channels
	Submissions
	Keys
	Usage
	Garbage
	Maintenance
	Properties
	Leases
	Inspection
	Nodes
	Clock
}
