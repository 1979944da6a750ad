// Package database has what every contract of an instance's database promises: transactions,
// waiting, time and errors. The contracts are metastore for the metadata of blobs, ledger for
// money, and access/keys for API keys; what belongs to the database and its nodes, whatever they
// store, is here. Package sqlstore implements all of them on one engine.
//
// # Transactions
//
// Every method that has an effect is one atomic and durable transaction. When it returns nil, the
// effect survives a power failure and is visible to every later call on any handle. When it returns
// an error other than ErrUnknownOutcome, it had no effect. The only exception is stated at
// metastore.Blobs.CommitBlob. No method exposes a transaction; where a decision must be made inside
// one, the caller passes a function such as a metastore.Precondition.
//
// "Repeated" in the contracts means that the same call is made again, for example because the
// response to the first one was lost.
//
// # Concurrency
//
// Methods may be called concurrently, from several goroutines and, if the engine permits it, from
// several processes.
//
// # Contexts and waiting
//
// If ctx ends before the effect of a call has begun, the call returns ctx's error. Afterwards the
// call is completed regardless of ctx.
//
// The time for which a call waits for its engine is bounded by what is left of its context's
// patience (see WithPatience), or else by Patience. A call that has waited for others for that long
// returns ErrBusy without effect; if the response to its commit does not arrive in that time it
// returns ErrUnknownOutcome. A read that serves no request may take longer.
//
// # Time
//
// Times are stored in UTC with a resolution of one microsecond. In the contracts "now" is the time
// of Clock, read inside the transaction.
package database

import "errors"

// Errors that every method may return. They are wrapped; compare them with errors.Is.
var (
	// ErrNotFound means that the blob, upload, session, channel or key does not exist, or
	// no longer.
	ErrNotFound = errors.New("database: not found")
	// ErrExpired means that the blob or session exists but has expired.
	ErrExpired = errors.New("database: expired")
	// ErrExists means that what was to be created exists already.
	ErrExists = errors.New("database: exists")
	// ErrNoSpace means that the disk of the engine is full. Nothing was stored.
	ErrNoSpace = errors.New("database: no space left")
	// ErrUnavailable means that the engine cannot be reached. The call had no effect.
	ErrUnavailable = errors.New("database: unavailable")
	// ErrBusy means that the call has waited for others for longer than its patience, or
	// would have had to. It had no effect.
	ErrBusy = errors.New("database: waited too long for it")
	// ErrUnknownOutcome means that the engine did not report whether the transaction was
	// committed. The caller must query the state, or repeat the call if that is safe.
	ErrUnknownOutcome = errors.New("database: outcome unknown")
	// ErrClock means that the current time is too uncertain to delete anything because of
	// its age.
	ErrClock = errors.New("database: the time is not certain")
	// ErrNewer means that the database was written by a newer version of the program.
	ErrNewer = errors.New("the database is newer than this program: use the version of sluice that wrote it, or a newer one")
	// ErrOlder means that the database was written by an older version of the program and
	// the caller did not permit to upgrade it.
	ErrOlder = errors.New("the database is older than this program: start the server once to bring it up to date")
)

// MaxFindings is the greatest number of sentences that Audit returns.
const MaxFindings = 1000

// EntryCharge is what an entry of a page counts against the greatest size of the page, in bytes, in
// addition to its texts: of a blob its name, its content type and, if it is asked for, its
// metadata. A page has at least one entry, whatever its size.
const EntryCharge = 256
