package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"sluice/metastore"
)

// maxBatch is the greatest number of calls that share one commit.
const maxBatch = 512

// writer runs the write transactions of a single-writer engine on one
// connection. Calls that arrive while a commit is on its way share the next
// one, so that the price of a sync is paid by many.
//
// Nothing is answered before its commit returned, refusals included: they too
// may rest on what others in the batch have done.
type writer struct {
	conn    *sqliteConn
	begin   string        // the statement that begins a write transaction
	commits chan struct{} // holds a token when there were commits since the last look
	done    chan struct{} // closed when the loop has ended

	mu struct {
		sync.Mutex
		queue  []*call
		closed bool
	}
	wake     chan struct{} // gets a token when the queue grows or closes
	health   *health
	patience sharedTimer // of the callers
	batchMu  sync.Mutex  // held by the batch at work, or by who must have none at work

	members []*call // of the batch at work; kept for its memory
}

// call is one closure that waits for its transaction.
type call struct {
	fn       func(*tx) error
	state    atomic.Int32
	err      error
	panicked any
	done     chan struct{}
}

// The states of a call. From waiting it is either started by the writer or
// left by its caller.
const (
	callWaiting = iota
	callStarted
	callLeft
)

func newWriter(c *sqliteConn, begin string, h *health) *writer {
	w := &writer{
		conn: c, begin: begin, health: h,
		commits: make(chan struct{}, 1),
		done:    make(chan struct{}),
		wake:    make(chan struct{}, 1),
	}
	go w.loop()
	return w
}

// write runs fn in a batch and waits for its commit. ctx counts until fn
// starts.
func (w *writer) write(ctx context.Context, fn func(*tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	wait := metastore.Await(ctx, metastore.Patience)
	defer wait.End()
	if !time.Now().Before(wait.Until) {
		return errQueued
	}
	c := &call{fn: fn, done: make(chan struct{})}
	if err := w.enqueue(c); err != nil {
		return err
	}
	if err := w.patience.wait(ctx, c.done, wait.Until); err != nil {
		if c.state.CompareAndSwap(callWaiting, callLeft) {
			return err
		}
		<-c.done
	}
	if c.panicked != nil {
		panic(c.panicked)
	}
	return c.err
}

// errQueued is the error of a call that others, or another process, kept waiting.
var errQueued = fmt.Errorf("sqlstore: %w: other transactions are at work", metastore.ErrBusy)

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

// next takes the first call that its caller has not left, and starts it; nil
// when there is none.
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

// pending reports whether some call still waits.
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

func (w *writer) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.closed
}

// close ends the loop after the batch at work, and fails the calls that wait.
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
			// The callers just answered are likely to call again: let them
			// join the next batch instead of the one after it.
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

// refuse fails the calls that wait.
func (w *writer) refuse(err error) {
	for c := w.next(); c != nil; c = w.next() {
		c.answer(err)
	}
}

func (c *call) answer(err error) {
	c.err = err
	close(c.done)
}

// batch runs the calls that wait, and those that join them meanwhile, in one
// transaction.
func (w *writer) batch() {
	w.batchMu.Lock()
	defer w.batchMu.Unlock()
	if err := w.beginTx(); err != nil {
		if w.conn.classifier(err) == classBusy {
			return // another process writes; who waits may leave meanwhile
		}
		if c := w.next(); c != nil {
			c.answer(w.beginFailed(err))
		}
		return
	}
	w.members = w.members[:0]
	for len(w.members) < maxBatch {
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
	}
	if err := w.commit(); err != nil {
		if errors.Is(err, metastore.ErrNoSpace) && len(w.members) > 1 {
			w.retrySeparately()
			return
		}
		for _, c := range w.members {
			c.err = err
		}
	}
	w.answerAll()
}

func (w *writer) answerAll() {
	for i, c := range w.members {
		w.members[i] = nil
		c.answer(c.err)
	}
}

// oneByOne runs each member of a batch that was undone in a transaction of its
// own, so that the one that spoilt it harms only itself.
func (w *writer) retrySeparately() {
	for _, c := range w.members {
		c.err = w.runAlone(c)
	}
	w.answerAll()
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
		if w.conn.classifier(err) != classBusy {
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
	if cerr := w.commit(); cerr != nil {
		return cerr
	}
	return err
}

// apply runs one closure, and tells whether the transaction must be undone:
// because the closure failed after a change, or because the engine failed and
// may have left the transaction.
func (w *writer) apply(c *call) (undo bool, err error) {
	t := &tx{conn: w.conn}
	c.panicked = nil
	defer func() {
		// A panic belongs to the caller's goroutine, not to the writer's.
		if p := recover(); p != nil {
			c.panicked, err, undo = p, errors.New("sqlstore: panic in a transaction"), true
		}
	}()
	err = c.fn(t)
	if t.failed != nil {
		w.health.observe(w.conn.classifier(t.failed), t.failed)
	}
	return t.failed != nil || (err != nil && t.changed), err
}

func (w *writer) beginTx() error { return w.conn.run(w.begin) }

// commit makes the transaction durable. On ErrNoSpace and ErrUnavailable nothing
// of it was kept. On ErrUnknownOutcome it may come back when the log is read
// anew, and the writer has stopped: the next transaction would rest on a state
// that may not be the last.
func (w *writer) commit() error {
	err := w.conn.run("COMMIT")
	if err == nil {
		w.signalCommit()
		return nil
	}
	w.rollback()
	f := w.conn.classifier(err)
	switch {
	case !commitRefused(f, err):
		if !w.health.observe(f, err) {
			w.health.stop(err)
		}
		return fmt.Errorf("sqlstore: commit: %w: %w", metastore.ErrUnknownOutcome, err)
	case f == classBusy:
		return fmt.Errorf("sqlstore: commit: %w: %w", metastore.ErrUnavailable, err)
	default:
		return translate(f, err)
	}
}

// rollback undoes the transaction. It may fail because the engine has left the
// transaction already. If it failed otherwise, the next BEGIN will tell: there
// is no BEGIN within a transaction.
func (w *writer) rollback() {
	_ = w.conn.run("ROLLBACK")
}

// noBegin is the error of a call for which no transaction could be begun. But
// for a full disk and damage that says that the connection is of no more use.
func (w *writer) beginFailed(err error) error {
	f := w.conn.classifier(err)
	if f == classFull {
		return translate(f, err)
	}
	if !w.health.observe(f, err) {
		w.health.stop(err)
	}
	return w.health.err()
}

// committed waits for a commit since the last one that was noticed; false when
// quit is closed.
func (w *writer) awaitCommit(quit <-chan struct{}) bool {
	select {
	case <-w.commits:
		return true
	case <-quit:
		return false
	}
}

// quiet reports whether no commit comes within d; false at once on quit.
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

// noteCommit leaves a token for the checkpointer.
func (w *writer) signalCommit() {
	select {
	case w.commits <- struct{}{}:
	default:
	}
}
