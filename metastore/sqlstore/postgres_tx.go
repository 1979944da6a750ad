package sqlstore

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"sluice/metastore"
)

// The statements that begin a transaction.
const (
	beginIsolated = "BEGIN ISOLATION LEVEL SERIALIZABLE"
	beginLocked   = "BEGIN ISOLATION LEVEL READ COMMITTED"
	beginSnapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
)

// postgresLock takes a lock that goes with the transaction, as tx.lock does.
const postgresLock = `SELECT 1 FROM pg_advisory_xact_lock($1)`

// snapshotLimit bounds a transaction that only reads, perhaps a whole table, and
// serves no request.
const snapshotTimeout = 5 * time.Minute

func (p *postgresEngine) write(ctx context.Context, fn func(*tx) error) error {
	return p.transact(ctx, beginIsolated, fn)
}

func (p *postgresEngine) writeLocked(ctx context.Context, fn func(*tx) error) error {
	return p.transact(ctx, beginLocked, fn)
}

// transact runs fn in a write transaction, and begins it anew when others were
// in the way or the connection was lost.
//
// The transaction first inserts an id. When the answer to its COMMIT was lost,
// the same is begun again: inserting the id waits until the first transaction
// is over, be it that its COMMIT still arrives, and fails if it was committed.
// fn is then not run again, so that what it gave to its caller still holds. Nor is
// it where the id could have been forgotten by the server's clock: a process can
// stand still for longer than ids are kept.
func (p *postgresEngine) transact(ctx context.Context, begin string, fn func(*tx) error) error {
	wait := metastore.Await(ctx, metastore.Patience)
	defer wait.End()
	until := wait.Until
	w := &postgresWrite{
		postgresEngine: p,
		begin:          begin,
		random:         rand.Uint64(),
		fn:             fn,
		deadline:       until,
		commitBy:       until.Add(-time.Until(until) / 6),
	}
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
		if err == nil || errors.Is(err, metastore.ErrUnknownOutcome) {
			return err
		}
		if w.inDoubt {
			if r.wait(context.WithoutCancel(ctx), f, until) != nil {
				return fmt.Errorf("sqlstore: commit: %w: %w", metastore.ErrUnknownOutcome, err)
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

// enter waits for a place among the writers, until then at most.
func (p *postgresEngine) acquireSlot(ctx context.Context, until time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.isClosed() {
		return ErrClosed
	}
	if p.detached.Load() >= int64(cap(p.writeSlots)) {
		return fmt.Errorf("sqlstore: %w: the COMMITs on all connections for writes wait for an answer, as while a synchronous standby is away", metastore.ErrBusy)
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
		return fmt.Errorf("sqlstore: %w", *down)
	}
	return fmt.Errorf("sqlstore: %w: no connection for writes was free", metastore.ErrBusy)
}

// postgresWrite is a write transaction, tried until it is done.
type postgresWrite struct {
	*postgresEngine
	begin      string
	random     uint64 // makes the id unique
	id         []byte // what the last attempt inserted
	fn         func(*tx) error
	deadline   time.Time // until when the caller waits
	commitBy   time.Time // when the COMMIT must be sent, so that there is time for its answer
	inDoubt    bool      // a COMMIT was sent, and it is not known whether all that must have it have it
	isDetached bool      // a COMMIT goes on by itself, with the connection and the place
}

// attempt runs the transaction once, and tells what kind of error it met. ctx
// counts until fn starts, but not while there is a doubt to be settled.
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
		f := w.observe(c.classify(err), err)
		c.leave()
		if f == classUnique && w.inDoubt {
			return w.confirm(c)
		}
		return f, translate(f, err)
	}
	if age := now.Sub(w.beganAt()); w.inDoubt && age.Abs() > transactionIDRetention/2 {
		c.leave()
		return classOther, fmt.Errorf("sqlstore: commit: %w: it is %s by the server's clock since the transaction began, and its id may have been forgotten",
			metastore.ErrUnknownOutcome, age.Round(time.Second))
	}
	w.inDoubt = false
	w.observe(classOther, nil)
	t := &tx{conn: c, now: now, locking: " FOR UPDATE"}
	err = w.fn(t)
	switch {
	case t.failed != nil:
		f := w.observe(c.classify(t.failed), t.failed)
		c.leave()
		if err == nil {
			err = translate(f, t.failed)
		}
		return f, err
	case err != nil, !t.changed && w.begin == beginLocked:
		// What such a transaction found is committed, whatever becomes of it.
		c.leave()
		return classOther, err
	case c.ctx.Err() != nil:
		// A request to cancel may be on its way.
		c.leave()
		return classBusy, c.ctx.Err()
	}
	return w.commit(c)
}

// insertID begins the transaction and inserts its id, a fresh one unless there is
// a doubt to be settled. It returns the server's time.
func (w *postgresWrite) insertID(c *pooledConn) (time.Time, error) {
	id := w.freshID()
	if w.inDoubt {
		id = fmt.Sprintf(`'\x%x'`, w.id)
	}
	sent := w.clock.passed()
	results, err := c.send(w.begin + `; INSERT INTO transactions (id) VALUES (` + id + `) RETURNING ` + postgresMicros + `, id`)
	if err != nil {
		return time.Time{}, err
	}
	if w.id, err = hex.DecodeString(strings.TrimPrefix(string(results[1].Rows[0][1]), `\x`)); err != nil {
		return time.Time{}, err
	}
	return w.clock.learnFrom(results, sent)
}

// freshID is an expression for a new id: 64 bits of microseconds, by the server's
// clock, then 64 random bits.
func (w *postgresWrite) freshID() string {
	return fmt.Sprintf(`int8send(%s) || '\x%016x'`, postgresMicros, w.random)
}

// begun is the server's time in the id.
func (w *postgresWrite) beganAt() time.Time {
	return time.UnixMicro(int64(binary.BigEndian.Uint64(w.id)))
}

// confirm ends the doubt about a transaction whose id was found: it was committed
// here, but perhaps only here. The COMMIT of a later transaction is acknowledged
// when a standby that must have it has everything before it, too.
func (w *postgresWrite) confirm(c *pooledConn) (errorClass, error) {
	if _, err := c.send(beginLocked + `; INSERT INTO transactions (id) VALUES (` + w.freshID() + `)`); err != nil {
		f := w.observe(c.classify(err), err)
		c.leave()
		return f, translate(f, err)
	}
	return w.commit(c)
}

func (p *postgresEngine) read(ctx context.Context, fn func(*tx) error) error {
	return p.query(ctx, metastore.Patience, fn)
}

// snapshot runs fn in a read transaction.
func (p *postgresEngine) snapshot(ctx context.Context, fn func(*tx) error) error {
	return p.query(ctx, snapshotTimeout, func(t *tx) error {
		if _, err := t.exec(beginSnapshot); err != nil {
			return err
		}
		defer t.conn.(*pooledConn).leave()
		return fn(t)
	})
}

// query runs fn on a connection, for the patience of ctx, or else for limit. ctx
// counts until fn starts, and between attempts: to interrupt a query would cost
// the connection.
func (p *postgresEngine) query(ctx context.Context, limit time.Duration, fn func(*tx) error) error {
	wait := metastore.Await(ctx, limit)
	defer wait.End()
	for r := (retries{postgresEngine: p}); ; {
		if p.isClosed() {
			return ErrClosed
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

func (p *postgresEngine) queryOnce(ctx context.Context, until time.Time, fn func(*tx) error) (errorClass, error) {
	c, err := p.acquire(ctx, until)
	if err != nil {
		return p.acquireFailed(ctx, until, err)
	}
	defer c.release()
	t := &tx{conn: c}
	if err = fn(t); t.failed != nil {
		return p.observe(c.classify(t.failed), t.failed), err
	}
	p.observe(classOther, nil)
	return classOther, err
}

// pooledConn is a connection taken from the pool for a limited time.
type pooledConn struct {
	postgresConn
	pooled *pgxpool.Conn
	cancel context.CancelFunc
}

func (p *postgresEngine) acquire(ctx context.Context, until time.Time) (*pooledConn, error) {
	taking, stop := context.WithDeadline(ctx, until)
	defer stop()
	conn, err := p.pool.Acquire(taking)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	return &pooledConn{postgresConn{ctx, conn.Conn()}, conn, cancel}, nil
}

// release gives the connection back. The pool closes it if it is still at work,
// as after a panic.
func (c *pooledConn) release() {
	c.pooled.Release()
	c.cancel()
}

// unreached tells what it means that no connection was acquired until then.
// Everything but a plain refusal may be over soon.
func (p *postgresEngine) acquireFailed(ctx context.Context, until time.Time, err error) (errorClass, error) {
	var e *pgconn.PgError
	switch {
	case ctx.Err() != nil:
		return classOther, ctx.Err()
	case p.isClosed():
		return classOther, ErrClosed
	case errors.Is(err, errUnfit):
		return classOther, err
	case errors.As(err, &e):
		return p.observe(classifyPostgres(err), err), err
	case !time.Now().Before(until): // in itself that says nothing about the server
		if p.down.Load() != nil {
			return classLost, err
		}
		return classBusy, err
	default:
		return p.observe(classLost, err), err
	}
}

// note keeps in mind whether the server can be reached. When it cannot, the
// other connections are likely to be lost as well.
func (p *postgresEngine) observe(f errorClass, err error) errorClass {
	switch {
	case f == classLost:
		cause := fmt.Errorf("%w: %w", metastore.ErrUnavailable, err)
		p.down.Store(&cause)
		p.pool.Reset()
	case p.down.Load() != nil:
		p.down.Store(nil)
	}
	return f
}
