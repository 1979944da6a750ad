package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"sluice/database"
	"sluice/internal/histogram"
)

// MaxBatch is the greatest number of calls that share one commit.
const MaxBatch = 512

// writer runs all write transactions on one connection. Calls that arrive during a commit
// share the next one, so that one fsync serves many calls.
//
// No call returns before the commit has returned, not even if the call failed: its
// error may depend on changes of other calls in the batch.
type writer struct {
	conn    *sqliteConn
	begin   string        // statement that begins a write transaction
	commits chan struct{} // holds a token if there were commits since it was last received
	done    chan struct{} // closed when the loop has ended

	mu struct {
		sync.Mutex
		queue  []*call
		closed bool
	}
	wake    chan struct{} // receives a token when the queue grows or is closed
	health  *health
	guard   *commitGuard
	timer   *SharedTimer // the callers' deadlines
	rows    RowWatcher
	batchMu sync.Mutex // held by the running batch, or to exclude batches

	commitCounts *commitCounts
	batches      *histogram.Histogram // calls of each transaction that was committed

	// The running transaction's; kept to reuse the memory.
	members []*call
	touched []RowKey
	changes ChangeRun
	values  [5]any // parameters of the statement that inserts a row of changes
	own     Tx     // that stores the changes
	last    int64  // the number of the last change, unless another process has written since
}

// call is a function that waits for its transaction.
type call struct {
	fn       func(*Tx) error
	tx       Tx // the one in which fn runs
	state    atomic.Int32
	guarded  bool // its commit needs permission
	err      error
	panicked any
	done     chan struct{}    // closed at the end; nil: end is called
	end      func(any, error) // with panicked and err
}

// run calls fn. The caller's goroutine repeats a panic.
func (c *call) run() (err error) {
	defer func() {
		if c.panicked = recover(); c.panicked != nil {
			err = errPanic
		}
	}()
	return c.fn(&c.tx)
}

// A call's states. Either the writer starts a waiting call, or its caller abandons it.
const (
	callWaiting = iota
	callStarted
	callAbandoned
)

func newWriter(c *sqliteConn, begin string, h *health, g *commitGuard, rows RowWatcher) *writer {
	w := &writer{
		conn: c, begin: begin, health: h, guard: g, rows: rows, timer: NewSharedTimer(),
		commits: make(chan struct{}, 1),
		done:    make(chan struct{}),
		wake:    make(chan struct{}, 1),

		commitCounts: newCommitCounts(), batches: histogram.New(1, 2, 10),
	}
	go w.loop()
	return w
}

// write runs fn in a batch and waits for its commit. ctx has an effect until fn starts.
func (w *writer) write(ctx context.Context, fn func(*Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	wait := database.Await(ctx, database.Patience)
	defer wait.End()
	if !time.Now().Before(wait.Until) {
		return ErrQueued
	}
	c := &call{fn: fn, done: make(chan struct{})}
	if err := w.enqueue(c); err != nil {
		return err
	}
	if err := w.timer.Wait(ctx, c.done, wait.Until); err != nil {
		if c.state.CompareAndSwap(callWaiting, callAbandoned) {
			return err
		}
		<-c.done
	}
	if c.panicked != nil {
		panic(c.panicked)
	}
	return c.err
}

// start runs fn in a batch, and then calls done with the value of its panic and its error. It
// returns an error if it does neither.
func (w *writer) start(fn func(*Tx) error, done func(panicked any, err error)) error {
	return w.enqueue(&call{fn: fn, end: done})
}

func (w *writer) enqueue(c *call) error {
	if err := w.health.err(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.closed {
		return ErrClosed
	}
	w.mu.queue = append(w.mu.queue, c)
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return nil
}

// next removes the first call that has not been abandoned and starts it. It returns nil if
// there is none.
func (w *writer) next() *call {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.mu.queue) > 0 {
		c := w.mu.queue[0]
		w.mu.queue[0] = nil
		if w.mu.queue = w.mu.queue[1:]; len(w.mu.queue) == 0 {
			w.mu.queue = nil
		}
		if c.state.CompareAndSwap(callWaiting, callStarted) {
			return c
		}
	}
	return nil
}

// pending reports whether a call is waiting.
func (w *writer) pending() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.mu.queue {
		if c.state.Load() == callWaiting {
			return true
		}
	}
	return false
}

// queued returns the number of calls in the queue, including abandoned ones.
func (w *writer) queued() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.mu.queue)
}

func (w *writer) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.closed
}

// close ends the loop after the running batch and fails the waiting calls.
func (w *writer) close() {
	w.mu.Lock()
	w.mu.closed = true
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
	<-w.done
}

func (w *writer) loop() {
	defer close(w.done)
	for range w.wake {
		for w.pending() && !w.isClosed() && w.health.err() == nil {
			w.batch()
			// Callers that just got their results are likely to call again, and can then join the
			// next batch.
			runtime.Gosched()
		}
		if w.isClosed() {
			w.refuse(ErrClosed)
			return
		}
		if err := w.health.err(); err != nil {
			w.refuse(err)
		}
	}
}

// refuse fails the waiting calls.
func (w *writer) refuse(err error) {
	for c := w.next(); c != nil; c = w.next() {
		c.finish(err)
	}
}

func (c *call) finish(err error) {
	c.err = err
	if c.done == nil {
		c.end(c.panicked, err)
		return
	}
	close(c.done)
}

// batch runs the waiting calls, and those that arrive while it does, in one transaction.
func (w *writer) batch() {
	w.batchMu.Lock()
	defer w.batchMu.Unlock()
	if err := w.beginTx(); err != nil {
		if w.conn.classify(err) == classBusy {
			return // another process writes; callers may cancel before the next attempt
		}
		if c := w.next(); c != nil {
			c.finish(w.beginFailed(err))
		}
		return
	}
	w.members = w.members[:0]
	guarded := false
	for len(w.members) < MaxBatch {
		c := w.next()
		if c == nil {
			break
		}
		w.members = append(w.members, c)
		var undo bool
		if undo, c.err = w.apply(c); undo {
			w.rollback()
			w.retrySeparately()
			return
		}
		guarded = guarded || c.guarded
	}
	if guarded && w.guard.check() != nil {
		w.rollback()
		w.retrySeparately() // for the calls that need no permission
		return
	}
	if w.storeChanges() != nil {
		w.rollback()
		w.retrySeparately()
		return
	}
	if err := w.commit(len(w.members)); err != nil {
		if errors.Is(err, database.ErrNoSpace) && len(w.members) > 1 {
			w.retrySeparately()
			return
		}
		for _, c := range w.members {
			c.err = err
		}
	}
	w.finishAll()
}

func (w *writer) finishAll() {
	for i, c := range w.members {
		w.members[i] = nil
		c.finish(c.err)
	}
}

// retrySeparately runs a rolled back batch's calls one by one, each in its own transaction, so that
// a call that fails affects only itself.
func (w *writer) retrySeparately() {
	for _, c := range w.members {
		c.err = w.runAlone(c)
	}
	w.finishAll()
}

func (w *writer) runAlone(c *call) error {
	for {
		if err := w.health.err(); err != nil {
			return err
		}
		err := w.beginTx()
		if err == nil {
			break
		}
		if w.conn.classify(err) != classBusy {
			return w.beginFailed(err)
		}
		if w.isClosed() {
			return ErrClosed
		}
	}
	undo, err := w.apply(c)
	if undo {
		w.rollback()
		return err
	}
	if c.guarded {
		if gerr := w.guard.check(); gerr != nil {
			w.rollback()
			return gerr
		}
	}
	if cerr := w.storeChanges(); cerr != nil {
		w.rollback()
		return cerr
	}
	if cerr := w.commit(1); cerr != nil {
		return cerr
	}
	return err
}

// apply runs a call and reports whether the transaction must be rolled back: because the
// call failed after a change, or because the engine failed and may have ended the
// transaction.
func (w *writer) apply(c *call) (undo bool, err error) {
	before := w.changes
	c.tx = Tx{conn: w.conn, changes: &w.changes, touched: w.touched[len(w.touched):]}
	t := &c.tx
	err = c.run()
	if err != nil {
		w.changes = before
	}
	w.touched = append(w.touched, t.touched...)
	c.guarded = t.guarded()
	if t.failed != nil {
		w.health.observe(w.conn.classify(t.failed), t.failed)
	}
	return c.panicked != nil || t.failed != nil || (err != nil && t.Changed), err
}

func (w *writer) beginTx() error {
	clear(w.touched)
	w.touched = w.touched[:0]
	w.changes.reset()
	return w.conn.run(w.begin)
}

// storeChanges writes the calls' changes in the transaction, which is about to be committed.
// After an error it must be rolled back.
func (w *writer) storeChanges() error {
	if w.changes.Count == 0 {
		return nil
	}
	w.own = Tx{conn: w.conn}
	t := &w.own
	stored, err := w.insertChanges(t)
	if err == nil && !stored { // another process has written, or a transaction was rolled back
		if _, err = t.Row(`SELECT COALESCE(MAX(last), 0) FROM changes`, nil, (*Integer)(&w.last)); err == nil {
			_, err = w.insertChanges(t)
		}
	}
	if err != nil {
		w.health.observe(w.conn.classify(t.failed), t.failed)
	}
	return err
}

// insertChanges inserts the rows of w.changes if w.last is the last change's number, which it
// reports. A row without packed is ignored.
func (w *writer) insertChanges(t *Tx) (bool, error) {
	left := w.changes
	for row, ok := left.Cut(w.last); ok; row, ok = left.Cut(w.last) {
		w.values = [...]any{row.Last - w.last, row.At, row.Packed, row.Sum(), w.last} // small numbers need no memory
		n, err := t.Exec(`INSERT OR IGNORE INTO changes (`+ChangeColumns+`)
			VALUES ($5 + $1, $2, CASE WHEN (SELECT COALESCE(MAX(last), 0) FROM changes) = $5 THEN $3 END, $4)`, w.values[:]...)
		if err != nil || n == 0 {
			return false, err
		}
		w.last = row.Last
	}
	return true, nil
}

// commit makes a transaction with this number of calls durable. If it returns ErrNoSpace or
// ErrUnavailable, the transaction has had no effect. If it returns ErrUnknownOutcome, the
// transaction may reappear when the log is read again, and the writer has stopped: the next
// transaction would be based on a state that may not be the last.
func (w *writer) commit(calls int) (err error) {
	w.rows.BeginCommit(w.touched)
	defer func() { w.rows.EndCommit(w.touched, !errors.Is(err, database.ErrUnknownOutcome)) }()
	began := time.Now()
	err = w.conn.run("COMMIT")
	w.commitCounts.seconds.Since(began)
	if err == nil {
		w.batches.Observe(float64(calls))
		w.signalCommit()
		return nil
	}
	w.rollback()
	f := w.conn.classify(err)
	switch {
	case !commitRefused(f, err):
		w.commitCounts.inDoubt.Add(1)
		if !w.health.observe(f, err) {
			w.health.stop(err)
		}
		return fmt.Errorf("sqlstore: commit: %w: %w", database.ErrUnknownOutcome, err)
	case f == classBusy:
		return fmt.Errorf("sqlstore: commit: %w: %w", database.ErrUnavailable, err)
	default:
		return translate(f, err)
	}
}

// rollback rolls the transaction back. Its error is ignored: the engine may have ended the
// transaction already, and otherwise the next BEGIN fails.
func (w *writer) rollback() {
	_ = w.conn.run("ROLLBACK")
}

// beginFailed returns a call's error after BEGIN has failed. Unless the disk is full or the
// database damaged, the connection can no longer be used, and the writer stops.
func (w *writer) beginFailed(err error) error {
	f := w.conn.classify(err)
	if f == classFull {
		return translate(f, err)
	}
	if !w.health.observe(f, err) {
		w.health.stop(err)
	}
	return w.health.err()
}

// awaitCommit waits for a commit after the last one that it reported. It returns false when
// quit is closed.
func (w *writer) awaitCommit(quit <-chan struct{}) bool {
	select {
	case <-w.commits:
		return true
	case <-quit:
		return false
	}
}

// idleFor waits for d and reports whether there was no commit in that time. It returns false
// immediately when there is one or quit is closed.
func (w *writer) idleFor(d time.Duration, quit <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.commits:
		w.signalCommit()
		return false
	case <-quit:
		return false
	}
}

// signalCommit stores a token for the checkpointer.
func (w *writer) signalCommit() {
	select {
	case w.commits <- struct{}{}:
	default:
	}
}
