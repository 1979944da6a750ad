package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"sluice/database"
)

// readers is the pool of connections for reads.
type readers struct {
	free   chan *sqliteConn
	closed chan struct{}
	health *health

	waits  atomic.Int64 // reads that waited for a connection
	waited atomic.Int64 // nanoseconds that they waited together
}

func newReaders(n int, h *health, open func() (*sqliteConn, error)) (*readers, error) {
	r := &readers{free: make(chan *sqliteConn, n), closed: make(chan struct{}), health: h}
	for range n {
		c, err := open()
		if err != nil {
			for len(r.free) > 0 {
				err = errors.Join(err, (<-r.free).close())
			}
			return nil, err
		}
		r.free <- c
	}
	return r, nil
}

// close waits for running reads and closes the connections.
func (r *readers) close() error {
	close(r.closed)
	var errs []error
	for range cap(r.free) {
		errs = append(errs, (<-r.free).close())
	}
	return errors.Join(errs...)
}

// read runs fn on a connection. ctx has an effect while read waits for a connection and
// between attempts on a busy database: reads are short, and making them interruptible would
// cost a goroutine each.
func (r *readers) read(ctx context.Context, fn func(*Tx) error) error {
	wait := database.Await(ctx, database.Patience)
	defer wait.End()
	for {
		c, err := r.acquire(ctx, wait.Until)
		if err != nil {
			return err
		}
		t := &Tx{conn: c}
		err = r.run(c, t, fn)
		if t.failed == nil {
			return err
		}
		f := c.classify(t.failed)
		if f == classCorrupt { // other errors of reads prove nothing about writes
			r.health.observe(f, t.failed)
		}
		if f != classBusy {
			return err
		}
	}
}

// run runs fn and returns the connection to the pool, even if fn panics. If an earlier read could
// not be rolled back, run does that first.
func (r *readers) run(c *sqliteConn, t *Tx, fn func(*Tx) error) error {
	defer func() { r.free <- c }()
	if c.inTx {
		if err := c.rollback(); err != nil {
			return t.fail(err)
		}
	}
	return fn(t)
}

func (r *readers) acquire(ctx context.Context, until time.Time) (*sqliteConn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case <-r.closed:
		return nil, ErrClosed
	default:
	}
	if !time.Now().Before(until) {
		return nil, ErrQueued
	}
	select {
	case c := <-r.free:
		return c, nil
	default:
	}
	began := time.Now()
	defer func() {
		r.waits.Add(1)
		r.waited.Add(int64(time.Since(began)))
	}()
	timer := time.NewTimer(until.Sub(began))
	defer timer.Stop()
	select {
	case c := <-r.free:
		return c, nil
	case <-r.closed:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timer.C:
		return nil, ErrQueued
	}
}

// snapshot runs fn in a read transaction.
func (r *readers) snapshot(ctx context.Context, fn func(*Tx) error) error {
	return r.read(ctx, func(t *Tx) (err error) {
		if _, err := t.Exec("BEGIN"); err != nil {
			return err
		}
		defer func() {
			if lerr := t.conn.(*sqliteConn).rollback(); lerr != nil && err == nil {
				err = t.fail(lerr)
			}
		}()
		return fn(t)
	})
}
