// Package history answers whether a process may change an instance now: whether its database is the
// one that may use these bytes, and whether database and bytes have everything that they have
// acknowledged.
//
// A copy of a database has its original's id, and a database that was set back to an older state
// looks like any other. Both are shown by a chain of records. Each record has a number, an owner
// and a nonce, and is kept in the database and beside the bytes. It is first added to the database
// and then put beside the bytes, where the first of several databases wins, and only then it is
// followed by another one.
//
//   - A record beside the bytes that the database lacks, of another owner: a copy of the database,
//     or its original, holds the bytes. This database is fenced (ErrFenced).
//   - A record that the database lacks, of its own owner, or that a process has seen in it: the
//     database was set back (database.ErrSetBack). So were bytes that lack a record which the
//     database knows to be there.
//   - Recover adds an operator's record, with a new owner and in a new generation. Every database
//     without that record is fenced.
//
// A database that commits adds a record every ten seconds, and when its nodes end. In addition the
// engine remembers the last transactions that were acknowledged to this process, and looks for them
// on each new connection (database.History's LostCommits).
//
// # Taking over
//
// A node that starts does not know whether another database holds the bytes. It puts a claim to the
// next number, which belongs to no database. A node that holds the bytes answers it by a record
// with a new owner: the other nodes of its database then know that they hold the bytes, too, and a
// copy that it is fenced. If no node answers for fenceWait, the node adds the record itself, unless
// another database is a candidate for it, too: then both are fenced.
//
// A node that holds the bytes continues to commit while they cannot be reached. A node that has
// started, or did not check for fenceGap because it was suspended, does not commit before a check.
//
// The chain relies on two guarantees of a byte store: if there are several Puts with one name, one
// succeeds, and Open finds the object of a Put that succeeded. It relies on listings that show
// objects put lately only for the comparison of candidates, and on listings that show objects put
// long ago only if a database is behind when it starts.
package history

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"sluice/bytestore"
	"sluice/database"
)

// Errors of a History, in addition to database.ErrSetBack. They are returned wrapped; use errors.Is
// to test for them.
var (
	// ErrFenced is returned if another database with the id of this one holds the bytes, or may do
	// so with more right. Nothing may be deleted or committed.
	ErrFenced = errors.New("another database with the same instance id uses these bytes")

	// ErrFenceWaits is returned while it is unknown whether another database holds the bytes.
	// Deletions and commits must wait.
	ErrFenceWaits = errors.New("deletions and writes wait until it is known that no other database uses these bytes")
)

// The times of a History. A node checks every checkEvery. A check's result permits deletions for
// fresh from its beginning. A node that has started waits fenceWait for an answer to its claim.
// After that time a node that did not answer has stopped deleting, and committing too: it does so
// only if a check began at most fenceGap ago.
const (
	checkEvery   = 2 * time.Second
	claimPoll    = time.Second // while an answer is awaited
	fresh        = 10 * time.Second
	fenceGap     = 15 * time.Second
	fenceWait    = 20 * time.Second
	checkTimeout = 6 * time.Second // so that two checks that fail leave no gap
	lastTimeout  = 2 * time.Second // for the last record of a node that ends

	// Every is how often records are added while a node commits.
	Every = 10 * time.Second
)

// Database is the part of an instance's database that a History uses.
type Database interface {
	database.History
	database.Properties
	Now() time.Time
}

// Options configure a History. The zero value is valid.
type Options struct {
	// Shared is set if other processes may use the bytes with a copy of the database.
	Shared bool
	// Node names this node for operators.
	Node string
	// Done returns the work that this process has acknowledged since it started. nil: it is not
	// known.
	Done func() Done
}

// Done is the work that a node has acknowledged.
type Done struct {
	Chunksets int64 // used
	Payments  int64
}

// History is an instance's history as a node knows it. Its methods may be called concurrently,
// except Watch.
type History struct {
	db    Database
	bytes bytestore.Store
	opt   Options
	hurry chan struct{} // holds a token if Watch must check now

	committed  atomic.Bool // since the last record of this process
	generation atomic.Int64
	kept       atomic.Pointer[database.KeptObjects]

	sem       chan struct{}         // held during a check; guards the fields up to mu
	compared  bool                  // with the bytes, and nothing was found
	started   int64                 // the newest record's number at the start
	holder    bool                  // a node of this database has added a record since
	candidate int64                 // the number for which the database is one
	name      string                // of the candidate
	claimed   time.Time             // when a claim to the next number was first seen; zero if there is none
	added     time.Time             // when this process added a record, or compared
	seen      database.HistoryState // by the last look that found nothing; zero if none has
	recorded  []checkpoint          // of the newest records of this process, and a zero one at first
	reported  bool                  // in this generation: how the instance was set back, as this node knows
	ending    bool                  // a record is due now
	tidy      bool                  // old records and claims are to be removed

	mu      sync.Mutex
	last    result
	tried   time.Time     // when the last check began, even if it failed
	holds   bool          // the database was found to hold the bytes, and there has been no gap since
	setBack error         // nil: nothing was noticed
	checked chan struct{} // closed when the next check ends
}

// checkpoint is a record of this process, and the work that the process had done before.
type checkpoint struct {
	record database.Record
	done   Done
}

// checkpoints is how many of its records a node remembers.
const checkpoints = 20

// result is the outcome of a check.
type result struct {
	began time.Time
	err   error
	pause time.Duration // until the next check
}

// Open checks an instance's history. It returns ErrFenced if another database is known to hold the
// bytes. That the instance was set back, or that this is not known yet, is returned by Err and
// MayCommit. Metadata and bytes must have passed Bind. The caller must run Watch.
func Open(ctx context.Context, db Database, bytes bytestore.Store, opt Options) (*History, error) {
	if opt.Done == nil {
		opt.Done = func() Done { return Done{} }
	}
	h := &History{
		db: db, bytes: bytes, opt: opt, recorded: []checkpoint{{}}, started: -1,
		hurry: make(chan struct{}, 1), sem: make(chan struct{}, 1), checked: make(chan struct{}),
	}
	err := h.check(ctx)
	if err != nil && !errors.Is(err, ErrFenceWaits) && !errors.Is(err, database.ErrSetBack) {
		return nil, fmt.Errorf("the instance's history: %w", err)
	}
	return h, nil
}

// Watch checks, and adds records, until ctx ends. It calls changed with each result that differs
// from the one before, and with that: nil, ErrFenceWaits, ErrFenced, database.ErrSetBack, or the
// reason why a check failed. At the end it adds a last record if anything was committed.
func (h *History) Watch(ctx context.Context, changed func(before, now error)) {
	last := h.latest()
	if err := h.Err(); err != nil {
		last.err = err
	}
	for {
		timer := time.NewTimer(last.pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			h.end(ctx)
			return
		case <-timer.C:
		case <-h.hurry:
			timer.Stop()
		}
		began := time.Now()
		bounded, cancel := context.WithTimeout(ctx, checkTimeout)
		err := h.check(bounded)
		cancel()
		if ctx.Err() != nil {
			h.end(ctx)
			return
		}
		h.try(began)                                                   // even if the stores did not answer in time
		if now := h.Err(); now != nil || err != nil && !h.opt.Shared { // other errors are reported elsewhere
			err = now
		}
		if fmt.Sprint(err) != fmt.Sprint(last.err) {
			changed(last.err, err)
		}
		last = result{err: err, pause: max(h.latest().pause, claimPoll)}
	}
}

// end adds a last record after ctx has ended.
func (h *History) end(ctx context.Context) {
	if h.MayCommit() != nil || !h.committed.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	h.sem <- struct{}{}
	h.ending = true
	<-h.sem
	// If this fails, the last commits remain unseen, as after a crash.
	_ = h.check(ctx)
}

// Err returns ErrFenced if another database is known to hold the bytes, database.ErrSetBack if the
// instance was set back, and nil otherwise. It does not wait.
func (h *History) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if errors.Is(h.last.err, ErrFenced) {
		return h.last.err
	}
	return h.lost()
}

// lost returns why the instance was set back, or nil. The caller holds mu.
func (h *History) lost() error {
	if lost := h.db.LostCommits(); lost != nil {
		return advise(lost)
	}
	return h.setBack
}

// advise returns an ErrSetBack with advice for the operator.
func advise(err error) error {
	return fmt.Errorf("%w; blobs can be read, and nothing else is done: see the runbook, and run sluice recover", err)
}

func (h *History) latest() result {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// MayCommit returns nil if this process may change the instance now, and otherwise ErrFenced,
// ErrFenceWaits or database.ErrSetBack. It makes no check, and never waits for one.
func (h *History) MayCommit() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case errors.Is(h.last.err, ErrFenced):
		return h.last.err
	case h.opt.Shared && h.setBack == nil && (!h.holds || h.gap()):
		return errWaits
	}
	return h.lost()
}

var errWaits = fmt.Errorf("%w; this takes up to %s after a start", ErrFenceWaits, fenceWait)

// Commit is MayCommit, and notes that something is committed if it returns nil. The caller must
// call it immediately before each commit of changes to the instance.
func (h *History) Commit() error {
	err := h.MayCommit()
	if err == nil && !h.committed.Load() {
		h.committed.Store(true)
	}
	return err
}

// MayDelete returns nil if objects may be deleted according to a check that began at most 10
// seconds ago. It makes a check if the last one is older.
func (h *History) MayDelete(ctx context.Context) error {
	if err := h.Err(); err != nil || !h.opt.Shared {
		return err
	}
	if last := h.latest(); elapsed(last.began) < fresh {
		return last.err
	}
	return h.check(ctx)
}

// Await waits until MayCommit does not return ErrFenceWaits any more, and returns its result, or
// ErrFenceWaits if ctx ends before that.
func (h *History) Await(ctx context.Context) error {
	for {
		h.mu.Lock()
		checked, gap := h.checked, h.gap()
		h.mu.Unlock()
		err := h.MayCommit()
		if !errors.Is(err, ErrFenceWaits) {
			return err
		}
		if gap { // Watch may sleep for as long as the machine did
			select {
			case h.hurry <- struct{}{}:
			default:
			}
		}
		select {
		case <-checked:
		case <-ctx.Done():
			return err
		}
	}
}

// While runs work each time that MayCommit has returned nil, until ctx ends. The context of work
// ends within a second after Err has returned an error.
func (h *History) While(ctx context.Context, work func(context.Context)) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		if h.MayCommit() == nil {
			working, stop := context.WithCancel(ctx)
			var running sync.WaitGroup
			running.Go(func() { work(working) })
			for h.Err() == nil && ctx.Err() == nil {
				wait(ctx, tick.C)
			}
			stop()
			running.Wait()
		}
		wait(ctx, tick.C)
	}
}

func wait(ctx context.Context, tick <-chan time.Time) {
	select {
	case <-ctx.Done():
	case <-tick:
	}
}

// Generation returns the instance's generation.
func (h *History) Generation() int64 { return h.generation.Load() }

// NewID returns a new id in this generation. It is the function for the services' options.
func (h *History) NewID() string { return database.NewID(h.Generation()) }

// KeptBefore returns the time before which objects were made that must be kept, though nothing
// refers to them. It is the function for blob.Options.
func (h *History) KeptBefore() time.Time {
	if kept := h.kept.Load(); kept != nil && h.db.Now().Before(kept.Until) {
		return kept.MadeBefore
	}
	return time.Time{}
}

// gap reports whether no check has begun for so long that another database may hold the bytes. The
// caller holds mu.
func (h *History) gap() bool { return elapsed(h.tried) > fenceGap }

// try records when a check began that has ended, even with an error. If there was none for so long
// that another database may hold the bytes, only a check can show that it does not.
func (h *History) try(began time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gap() {
		h.holds = false
	}
	if began.After(h.tried) {
		h.tried = began
	}
}

// elapsed returns the time since t by the clock that shows more of it: the monotonic clock may stop
// while the machine is asleep, and the wall clock can be set back.
func elapsed(t time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(t), now.Round(0).Sub(t.Round(0)))
}

// check finds out whether this process may change the instance.
func (h *History) check(ctx context.Context) error {
	select {
	case h.sem <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-h.sem }()
	found := result{began: time.Now(), pause: checkEvery}
	for again := true; again && found.err == nil; {
		again, found.err = h.step(ctx)
	}
	if ctx.Err() != nil && !errors.Is(found.err, ErrFenced) && !errors.Is(found.err, database.ErrSetBack) {
		return errors.Join(ctx.Err(), found.err) // which is not about the history
	}
	switch {
	case errors.Is(found.err, ErrFenced):
		h.holder = false
	case errors.Is(found.err, ErrFenceWaits):
		found.pause = min(claimPoll, fenceWait-elapsed(h.claimed))
	}
	h.try(found.began)
	h.conclude(found)
	return found.err
}

// conclude publishes a check's result.
func (h *History) conclude(found result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = found
	if found.err == nil || errors.Is(found.err, ErrFenced) {
		h.holds = found.err == nil
	}
	if errors.Is(found.err, database.ErrSetBack) {
		h.setBack = found.err
	} else if found.err == nil || errors.Is(found.err, ErrFenceWaits) {
		h.setBack = nil
	}
	close(h.checked)
	h.checked = make(chan struct{})
}
