// Package database states the common promises of all contracts of an instance's database:
// transactions, waiting, time and errors. The contracts are
//
//   - metastore: the blobs' metadata;
//   - ledger: money;
//   - access/keys: API keys;
//   - this package: the database itself and its nodes, whatever they store.
//
// Package whole joins the contracts to one interface, and package sqlstore implements it on one
// engine. Package dbtest has the conformance suite for this package's interfaces, and the helpers
// that it shares with the other contracts' suites.
//
// # Transactions
//
// Every method that has an effect is one atomic and durable transaction. When it returns nil, the
// effect survives a power failure and is visible to every later call on any handle. When it returns
// an error other than ErrUnknownOutcome, it had no effect. The exceptions are stated at
// metastore.Blobs.CommitBlob and Maintenance.Purge. No method exposes a transaction; where a
// decision must be made inside one, the caller passes a function such as a metastore.Precondition.
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
// If ctx ends before a call has begun to take effect, the call returns ctx's error. Later the call
// is completed regardless of ctx.
//
// A call waits for its engine for the rest of its context's patience (see WithPatience), or, if the
// context has none, for Patience. A call that has waited for other calls for that long returns
// ErrBusy without effect. If the response to its commit does not arrive in that time, it returns
// ErrUnknownOutcome. A read that serves no request may take longer.
//
// # Time
//
// Times are stored in UTC with a resolution of one microsecond. In the contracts "now" is the time
// by Clock, read inside the transaction.
package database

import "errors"

// Errors that every method may return. They are wrapped; compare them with errors.Is.
var (
	// ErrNotFound means that the blob, session, key, property or other thing that the call names
	// does not exist, or no longer.
	ErrNotFound = errors.New("database: not found")
	// ErrExpired means that the blob or session exists but has expired.
	ErrExpired = errors.New("database: expired")
	// ErrExists means that the thing to be created exists already.
	ErrExists = errors.New("database: exists")
	// ErrNoSpace means that the engine's disk is full. Nothing was stored.
	ErrNoSpace = errors.New("database: no space left")
	// ErrUnavailable means that the engine cannot be reached. The call had no effect.
	ErrUnavailable = errors.New("database: unavailable")
	// ErrBusy means that the call has waited for other calls for longer than its patience, or would
	// have had to. It had no effect.
	ErrBusy = errors.New("database: waited too long for it")
	// ErrUnknownOutcome means that the engine did not report whether the transaction was
	// committed. The caller must query the state, or repeat the call if that is safe.
	ErrUnknownOutcome = errors.New("database: outcome unknown")
	// ErrDamagedRow means that a row does not match its checksum: something else than this program
	// has changed it. Nothing in the row was used.
	ErrDamagedRow = errors.New("database: a row is damaged: run sluice check; see the runbook")
	// ErrClock means that the current time is too uncertain to delete anything because of
	// its age.
	ErrClock = errors.New("database: the time is not certain")
	// ErrLongStop is wrapped by an ErrClock if the clock shows that the instance was not running
	// for some time: nothing need be wrong.
	ErrLongStop = errors.New("nothing ran for a long time, or the clock was set")
	// ErrNewer means that a newer version of the program wrote the database.
	ErrNewer = errors.New("the database is newer than this program: use the version of sluice that wrote it, or a newer one")
	// ErrOlder means that an older version of the program wrote the database, and that the caller
	// did not permit an upgrade.
	ErrOlder = errors.New("the database is older than this program: start the server once to bring it up to date")
	// ErrNodesRun means that the database cannot be brought up to date yet, because nodes of an
	// earlier version run, which must not run beside ones of this version.
	ErrNodesRun = errors.New("nodes of an earlier version use the database and cannot run beside this version: stop all of them, and start this one again (a node that was killed counts for 30 s)")
)

// MaxFindings is the greatest number of sentences that Audit returns.
const MaxFindings = 1000

// EntryCharge is how many bytes a page's entry counts against the page's greatest size, in addition
// to the entry's texts. For example, a blob's texts are its name, its content type and, if the
// caller asks for it, its metadata. A page has at least one entry, whatever its size.
const EntryCharge = 256
