package sqlstore

import (
	"context"
	"errors"
	"fmt"
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

const (
	// attemptLimit bounds one transaction, the waiting for locks included.
	attemptLimit = 30 * time.Second
	// snapshotLimit bounds one that only reads, perhaps a whole table.
	snapshotLimit = 5 * time.Minute
)

func (p *postgres) write(ctx context.Context, fn func(*tx) error) error {
	return p.transact(ctx, beginIsolated, fn)
}

func (p *postgres) writeLocked(ctx context.Context, fn func(*tx) error) error {
	return p.transact(ctx, beginLocked, fn)
}

// transact runs fn in a write transaction, and begins it anew when others were
// in the way or the connection was lost.
//
// The transaction first inserts an id. When the answer to its COMMIT was lost,
// the same is begun again: inserting the id waits until the first transaction
// is over, be it that its COMMIT still arrives, and fails if it was committed.
// fn is then not run again, so that what it gave to its caller still holds.
func (p *postgres) transact(ctx context.Context, begin string, fn func(*tx) error) error {
	if err := p.enter(ctx); err != nil {
		return err
	}
	defer func() { <-p.writers }()
	w := &postgresWrite{postgres: p, begin: begin, id: transactionID(p.serverTime()), fn: fn}
	for r := (retries{postgres: p}); ; {
		f, err := w.attempt(ctx)
		if err == nil || (!w.inDoubt && f != faultBusy && f != faultLost) {
			return err
		}
		if rerr := r.wait(ctx, f, w.inDoubt); rerr != nil {
			if w.inDoubt {
				return fmt.Errorf("sqlstore: commit: %w: %w", metastore.ErrUnknownOutcome, err)
			}
			return gaveUp(rerr, err)
		}
	}
}

// enter waits for a place among the writers.
func (p *postgres) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.isClosed() {
		return ErrClosed
	}
	select {
	case p.writers <- struct{}{}:
		return nil
	case <-p.quit:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// postgresWrite is a write transaction, tried until it is done.
type postgresWrite struct {
	*postgres
	begin   string
	id      []byte
	fn      func(*tx) error
	inDoubt bool // a COMMIT was sent and not answered
}

// attempt runs the transaction once, and tells what kind of error it met. ctx
// counts until fn starts, but not while there is a doubt to be settled.
func (w *postgresWrite) attempt(ctx context.Context) (fault, error) {
	if w.inDoubt {
		ctx = context.WithoutCancel(ctx)
	}
	c, err := w.acquire(ctx, attemptLimit)
	if err != nil {
		return w.unreached(ctx, err)
	}
	defer c.release()
	sent := w.clock.passed()
	begun, err := c.send(fmt.Sprintf(`%s; INSERT INTO transactions (id) VALUES ('\x%x') RETURNING %s`, w.begin, w.id, postgresMicros))
	if err != nil {
		f := w.note(c.faultOf(err), err)
		c.leave()
		if f == faultUnique && w.inDoubt {
			return faultOther, nil
		}
		return f, translate(f, err)
	}
	w.inDoubt = false
	w.note(faultOther, nil)
	t := &tx{conn: c, locking: " FOR UPDATE"}
	if t.now, err = w.clock.toldBy(begun, sent); err != nil {
		c.leave()
		return faultOther, err
	}
	err = w.fn(t)
	switch {
	case t.failed != nil:
		f := w.note(c.faultOf(t.failed), t.failed)
		c.leave()
		if err == nil {
			err = translate(f, t.failed)
		}
		return f, err
	case err != nil, !t.changed && w.begin == beginLocked:
		// What such a transaction found is committed, whatever becomes of it.
		c.leave()
		return faultOther, err
	}
	return w.commit(c)
}

// commit makes the transaction durable. Only an error of the server that leaves
// the connection as it was says that it did not become so.
func (w *postgresWrite) commit(c *pooledConn) (fault, error) {
	results, err := c.send("COMMIT")
	if err == nil {
		if tag := results[0].CommandTag.String(); tag != "COMMIT" {
			return faultOther, fmt.Errorf("sqlstore: the server ended a transaction with %s", tag)
		}
		return faultOther, nil
	}
	var e *pgconn.PgError
	if errors.As(err, &e) && e.SeverityUnlocalized == "ERROR" {
		f := c.faultOf(err)
		return f, translate(f, err)
	}
	w.inDoubt = true
	return w.note(faultLost, err), err
}

func (p *postgres) read(ctx context.Context, fn func(*tx) error) error {
	return p.query(ctx, attemptLimit, fn)
}

// snapshot runs fn in a read transaction.
func (p *postgres) snapshot(ctx context.Context, fn func(*tx) error) error {
	return p.query(ctx, snapshotLimit, func(t *tx) error {
		if _, err := t.exec(beginSnapshot); err != nil {
			return err
		}
		defer t.conn.(*pooledConn).leave()
		return fn(t)
	})
}

// query runs fn on a connection, for so long at most. ctx counts until fn starts,
// and between attempts: to interrupt a query would cost the connection.
func (p *postgres) query(ctx context.Context, limit time.Duration, fn func(*tx) error) error {
	for r := (retries{postgres: p}); ; {
		if p.isClosed() {
			return ErrClosed
		}
		f, err := p.queryOnce(ctx, limit, fn)
		if f != faultBusy && f != faultLost {
			return err
		}
		if rerr := r.wait(ctx, f, false); rerr != nil {
			return gaveUp(rerr, err)
		}
	}
}

func (p *postgres) queryOnce(ctx context.Context, limit time.Duration, fn func(*tx) error) (fault, error) {
	c, err := p.acquire(ctx, limit)
	if err != nil {
		return p.unreached(ctx, err)
	}
	defer c.release()
	t := &tx{conn: c}
	if err = fn(t); t.failed != nil {
		return p.note(c.faultOf(t.failed), t.failed), err
	}
	p.note(faultOther, nil)
	return faultOther, err
}

// pooledConn is a connection taken from the pool for a limited time.
type pooledConn struct {
	postgresConn
	pooled *pgxpool.Conn
	cancel context.CancelFunc
}

func (p *postgres) acquire(ctx context.Context, limit time.Duration) (*pooledConn, error) {
	taking, stop := context.WithTimeout(ctx, limit)
	defer stop()
	conn, err := p.pool.Acquire(taking)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	return &pooledConn{postgresConn{ctx, conn.Conn()}, conn, cancel}, nil
}

// release gives the connection back. The pool closes it if it is still at work,
// as after a panic.
func (c *pooledConn) release() {
	c.pooled.Release()
	c.cancel()
}

// unreached tells what it means that there is no connection. Everything but a
// plain refusal may be over soon.
func (p *postgres) unreached(ctx context.Context, err error) (fault, error) {
	var e *pgconn.PgError
	switch {
	case ctx.Err() != nil:
		return faultOther, ctx.Err()
	case p.isClosed():
		return faultOther, ErrClosed
	case errors.Is(err, errUnfit):
		return faultOther, err
	case errors.As(err, &e):
		return p.note(postgresFault(err), err), err
	default:
		return p.note(faultLost, err), err
	}
}

// note keeps in mind whether the server can be reached. When it cannot, the
// other connections are likely to be lost as well.
func (p *postgres) note(f fault, err error) fault {
	switch {
	case f == faultLost:
		cause := fmt.Errorf("%w: %w", metastore.ErrUnavailable, err)
		p.down.Store(&cause)
		p.pool.Reset()
	case p.down.Load() != nil:
		p.down.Store(nil)
	}
	return f
}
