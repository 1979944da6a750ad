package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"sluice/database"
)

// Statements that begin a transaction.
const (
	beginIsolated = "BEGIN ISOLATION LEVEL SERIALIZABLE"
	beginLocked   = "BEGIN ISOLATION LEVEL READ COMMITTED"
	beginSnapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
)

// snapshotTimeout bounds a read-only transaction that serves no request. It may read a
// whole table.
const snapshotTimeout = 5 * time.Minute

func (p *postgresEngine) Write(ctx context.Context, fn func(*Tx) error) error {
	return p.transact(ctx, beginIsolated, fn)
}

func (p *postgresEngine) WriteLocked(ctx context.Context, fn func(*Tx) error) error {
	return p.transact(ctx, beginLocked, fn)
}

// StartLocked implements Engine.
func (p *postgresEngine) StartLocked(until time.Time, fn func(*Tx) error, done func(any, error)) error {
	go func() {
		done(recovered(func() error {
			return p.WriteLocked(database.WithPatience(context.Background(), time.Until(until)), fn)
		}))
	}()
	return nil
}

var errPanic = errors.New("sqlstore: panic in a transaction")

// recovered calls fn. If it panics, recovered returns the value and an error.
func recovered(fn func() error) (panicked any, err error) {
	defer func() {
		if panicked = recover(); panicked != nil {
			err = errPanic
		}
	}()
	return nil, fn()
}

// transact runs fn in a write transaction and retries it after a conflict or a lost
// connection.
//
// The transaction first inserts an id. If the response to its COMMIT is lost, transact begins it
// again with the same id: the insert waits until the first transaction, perhaps still in its
// COMMIT, has ended, and fails if it was committed. transact then does not run fn again, so that
// the results that fn passed to its caller remain valid. transact does not run fn again either if,
// by the server's clock, the id may have been deleted already: a process can be suspended for
// longer than ids are kept.
func (p *postgresEngine) transact(ctx context.Context, begin string, fn func(*Tx) error) error {
	wait := database.Await(ctx, database.Patience)
	defer wait.End()
	until := wait.Until
	w := &postgresWrite{
		postgresEngine: p,
		begin:          begin,
		fn:             fn,
		deadline:       until,
		commitBy:       until.Add(-time.Until(until) / 6),
	}
	binary.BigEndian.PutUint64(w.random[:], rand.Uint64())
	if err := p.acquireSlot(ctx, w.commitBy); err != nil {
		return err
	}
	defer func() {
		if !w.isDetached {
			<-p.writeSlots
		}
	}()
	for r := (retries{postgresEngine: p}); ; {
		f, err := w.attempt(ctx)
		if err == nil || errors.Is(err, database.ErrUnknownOutcome) {
			return err
		}
		if w.inDoubt {
			if r.wait(context.WithoutCancel(ctx), f, until) != nil {
				return fmt.Errorf("sqlstore: commit: %w: %w", database.ErrUnknownOutcome, err)
			}
			continue
		}
		if f != classBusy && f != classLost {
			return err
		}
		if rerr := r.wait(ctx, f, w.commitBy); rerr != nil {
			return gaveUpError(rerr, f, err)
		}
	}
}

// acquireSlot waits for a slot among the writers, at most until the given time.
func (p *postgresEngine) acquireSlot(ctx context.Context, until time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.isClosed() {
		return ErrClosed
	}
	if err := p.refusal(); err != nil {
		return err
	}
	if p.detached.Load() >= int64(cap(p.writeSlots)) {
		return fmt.Errorf("sqlstore: %w: %w", database.ErrBusy, errSlotsHeld)
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	if time.Now().Before(until) {
		select {
		case p.writeSlots <- struct{}{}:
			return nil
		case <-p.quit:
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
	}
	if down := p.down.Load(); down != nil {
		return fmt.Errorf("sqlstore: %w", down.err)
	}
	return fmt.Errorf("sqlstore: %w: no connection for writes became free", database.ErrBusy)
}

// postgresWrite is a call of transact.
type postgresWrite struct {
	*postgresEngine
	begin      string
	random     [8]byte // makes the id unique
	id         []byte  // that the last attempt inserted
	fn         func(*Tx) error
	deadline   time.Time // until when the caller waits
	commitBy   time.Time // until when a COMMIT is sent, so that there is time for its response
	inDoubt    bool      // a COMMIT was sent, and its outcome on the server or on a required standby is unknown
	isDetached bool      // a COMMIT runs without its caller and keeps the connection and the slot
	changes    ChangeRun // of the last attempt
}

// attempt runs the transaction once and returns its error and the error's class. ctx has an effect
// until fn starts, but not while a COMMIT is in doubt.
func (w *postgresWrite) attempt(ctx context.Context) (errorClass, error) {
	deadline := w.commitBy
	if w.inDoubt {
		ctx, deadline = context.WithoutCancel(ctx), w.deadline
	}
	c, err := w.acquire(ctx, deadline)
	if err != nil {
		return w.acquireFailed(ctx, deadline, err)
	}
	defer func() {
		if !w.isDetached {
			c.release()
		}
	}()
	now, err := w.insertID(c)
	if err != nil {
		f := w.observe(c, c.classify(err), err)
		c.rollback()
		if f == classUnique && w.inDoubt {
			return w.confirm(c)
		}
		return f, translate(f, err)
	}
	if age := now.Sub(w.beganAt()); w.inDoubt && age.Abs() > transactionIDRetention/2 {
		c.rollback()
		return classOther, fmt.Errorf("sqlstore: commit: %w: the transaction began %s ago by the clock of the server, and its id may have been deleted",
			database.ErrUnknownOutcome, age.Round(time.Second))
	}
	w.inDoubt = false
	w.observe(c, classOther, nil)
	c.writes = true
	w.changes.reset()
	t := &Tx{conn: c, Now: now, changes: &w.changes}
	if err = w.fn(t); err == nil {
		if err = t.queueChanges(); err == nil {
			if ferr := c.flush(); ferr != nil {
				err = t.fail(ferr)
			}
		}
	}
	switch {
	case t.failed != nil:
		f := w.observe(c, c.classify(t.failed), t.failed)
		c.rollback()
		if err == nil {
			err = translate(f, t.failed)
		}
		return f, err
	case err != nil, !t.Changed && w.begin == beginLocked:
		// Without a change there is nothing to commit: READ COMMITTED saw only committed rows.
		c.rollback()
		return classOther, err
	case c.ctx.Err() != nil:
		// A request to cancel may be under way.
		c.rollback()
		return classBusy, c.ctx.Err()
	}
	if t.guarded() {
		if err := w.guard.check(); err != nil {
			c.rollback()
			return classOther, err
		}
	}
	return w.commit(c)
}

// insertID begins the transaction and inserts its id, which is a new one unless the transaction is
// in doubt. It returns the server's time.
func (w *postgresWrite) insertID(c *pooledConn) (time.Time, error) {
	insert, in := insertFreshID, Args{w.random[:]}
	if w.inDoubt {
		insert, in = `INSERT INTO transactions (id) VALUES ($1)`+shownWithID, Args{w.id}
	}
	sent := w.serverClock.passed()
	var micros Integer
	if err := c.begin(w.begin, insert, in, &micros, &w.id); err != nil {
		return time.Time{}, err
	}
	shown := time.UnixMicro(int64(micros)).UTC()
	w.serverClock.record(shown, sent)
	return shown, nil
}

// insertFreshID inserts a new id: 64 bits of microseconds by the server's clock, then the 64 random
// bits of $1. The server has it prepared: planning it each time took a twentieth of a PUT.
const (
	insertFreshID = `INSERT INTO transactions (id) VALUES (int8send(` + postgresMicros + `) || $1)` + shownWithID
	shownWithID   = ` RETURNING ` + postgresMicros + `, id`
)

// beganAt returns the server's time in the id.
func (w *postgresWrite) beganAt() time.Time {
	return time.UnixMicro(int64(binary.BigEndian.Uint64(w.id)))
}

// confirm is called for a transaction in doubt after its id was found: it is committed on this
// server, but perhaps not on a required standby. confirm commits another transaction, which is
// acknowledged once the standby has everything before it.
func (w *postgresWrite) confirm(c *pooledConn) (errorClass, error) {
	var micros Integer
	var id []byte
	if err := c.begin(beginLocked, insertFreshID, Args{w.random[:]}, &micros, &id); err != nil {
		f := w.observe(c, c.classify(err), err)
		c.rollback()
		return f, translate(f, err)
	}
	return w.commit(c)
}

// commit makes the transaction durable. If that takes longer than the caller waits, the
// COMMIT continues without it and keeps the connection and the slot.
func (w *postgresWrite) commit(c *pooledConn) (errorClass, error) {
	result, left := make(chan error), make(chan struct{})
	go func() {
		began := time.Now()
		err := c.commit(w.commits)
		w.commitCounts.seconds.Since(began)
		select {
		case result <- err:
		case <-left:
			_, _ = w.commitAnswered(c, err) // the caller has left
			c.release()
			w.detached.Add(-1)
			<-w.writeSlots
		}
	}()
	timer := time.NewTimer(time.Until(w.deadline))
	defer timer.Stop()
	select {
	case err := <-result:
		f, err := w.commitAnswered(c, err)
		if err == nil {
			w.acked.add(w.id)
		}
		return f, err
	case <-timer.C:
		w.isDetached = true
		w.detached.Add(1)
		w.commitCounts.inDoubt.Add(1)
		close(left)
		return classOther, fmt.Errorf("sqlstore: commit: %w: the server has not responded; it may be waiting for a synchronous standby", database.ErrUnknownOutcome)
	}
}

// commitAnswered translates a COMMIT's result.
func (w *postgresWrite) commitAnswered(c *pooledConn, err error) (errorClass, error) {
	var doubt *doubtError
	switch {
	case err == nil:
		return w.observe(c, classOther, nil), nil
	case errors.As(err, &doubt):
		w.inDoubt = true
		w.commitCounts.inDoubt.Add(1)
		return w.observe(c, classLost, err), err
	default:
		f := c.classify(err)
		return f, translate(f, err)
	}
}

func (p *postgresEngine) Read(ctx context.Context, fn func(*Tx) error) error {
	return p.query(ctx, database.Patience, fn)
}

// Snapshot runs fn in a read transaction.
func (p *postgresEngine) Snapshot(ctx context.Context, fn func(*Tx) error) error {
	return p.query(ctx, snapshotTimeout, func(t *Tx) error {
		if _, err := t.Exec(beginSnapshot); err != nil {
			return err
		}
		defer t.conn.(*pooledConn).rollback()
		return fn(t)
	})
}

// Survey implements Engine. Its statements run under ctx instead of a deadline: nothing depends on
// the connection that is lost if ctx ends during one.
func (p *postgresEngine) Survey(ctx context.Context, fn func(*Tx) error) error {
	err := p.Snapshot(ctx, func(t *Tx) error {
		t.conn.(*pooledConn).ctx = ctx
		return fn(t)
	})
	if cause := ctx.Err(); err != nil && cause != nil {
		return cause
	}
	return err
}

// query runs fn on a connection, for the patience of ctx, or for limit if ctx has none. ctx
// has an effect until fn starts and between attempts: interrupting a query would cost the
// connection.
func (p *postgresEngine) query(ctx context.Context, limit time.Duration, fn func(*Tx) error) error {
	wait := database.Await(ctx, limit)
	defer wait.End()
	for r := (retries{postgresEngine: p}); ; {
		if p.isClosed() {
			return ErrClosed
		}
		if err := p.refusal(); err != nil {
			return err
		}
		f, err := p.queryOnce(ctx, wait.Until, fn)
		if f != classBusy && f != classLost {
			return err
		}
		if rerr := r.wait(ctx, f, wait.Until); rerr != nil {
			return gaveUpError(rerr, f, err)
		}
	}
}

func (p *postgresEngine) queryOnce(ctx context.Context, until time.Time, fn func(*Tx) error) (errorClass, error) {
	c, err := p.acquire(ctx, until)
	if err != nil {
		return p.acquireFailed(ctx, until, err)
	}
	defer c.release()
	t := &Tx{conn: c}
	if err = fn(t); t.failed != nil {
		return p.observe(c, c.classify(t.failed), t.failed), err
	}
	p.observe(c, classOther, nil)
	return classOther, err
}
