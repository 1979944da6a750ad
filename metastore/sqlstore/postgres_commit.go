package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"sluice/metastore"
)

// With a synchronous standby a COMMIT waits until that has the transaction. A
// request to cancel it does not undo it: PostgreSQL stops waiting, warns, and
// says that it committed, though the standby does not have it and may be the
// next primary without it (https://www.postgresql.org/docs/current/warm-standby.html,
// section 27.2.8.4). pgx sends such requests by itself, when a context ends and
// when a connection breaks. So a COMMIT runs under a context that has no
// deadline, its session sends no request to cancel while it is at work, and one
// that was warned about is in doubt.

// session is what is known of a connection beside what pgx knows.
type commitState struct {
	committing atomic.Bool // a COMMIT was sent and not answered
	warning    atomic.Pointer[pgconn.Notice]
}

const commitStateKey = "sluice session"

var errCommitting = errors.New("sqlstore: a COMMIT is not cancelled")

// newSession makes the session of a connection that is about to be made.
func watchCommits(_ context.Context, config *pgx.ConnConfig) error {
	s := &commitState{}
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if s.committing.Load() {
			return nil, errCommitting
		}
		return dial(ctx, network, addr)
	}
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" {
			s.warning.Store(n)
		}
	}
	config.AfterConnect = func(_ context.Context, c *pgconn.PgConn) error {
		c.CustomData()[commitStateKey] = s
		return nil
	}
	return nil
}

// interrupt makes the end of a context cancel the statement, whose error then
// says that the server is there; one that is not there answers nothing.
func interrupt(c *pgconn.PgConn) ctxwatch.Handler {
	return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: cancelTimeout}
}

// cancelLimit is for how long a server may take to cancel a statement.
const cancelTimeout = time.Second

// doubtError is the error of a COMMIT of which it is not known whether it took
// effect, or whether a standby that must have it has it.
type doubtError struct{ err error }

// Error returns the text of the error.
func (e *doubtError) Error() string { return "COMMIT in doubt: " + e.err.Error() }

// Unwrap returns the error.
func (e *doubtError) Unwrap() error { return e.err }

// commit sends COMMIT and waits for its answer for as long as it takes, or until
// ctx is cancelled, which costs the connection. Only an error of the server that
// leaves the connection as it was says that the transaction was not committed.
func (c *postgresConn) commit(ctx context.Context) error {
	s := c.conn.PgConn().CustomData()[commitStateKey].(*commitState)
	s.warning.Store(nil)
	s.committing.Store(true)
	defer context.AfterFunc(ctx, func() { _ = c.conn.PgConn().Conn().Close() })()
	results, err := c.conn.PgConn().Exec(context.Background(), "COMMIT").ReadAll()
	if !c.conn.IsClosed() {
		s.committing.Store(false)
	}
	var e *pgconn.PgError
	switch warning := s.warning.Load(); {
	case err == nil && warning != nil:
		return &doubtError{fmt.Errorf("the server warned: %s", warning.Message)}
	case err == nil:
		if tag := results[0].CommandTag.String(); tag != "COMMIT" {
			return fmt.Errorf("sqlstore: the server ended a transaction with %s", tag)
		}
		return nil
	case errors.As(err, &e) && e.SeverityUnlocalized == "ERROR":
		return err
	default:
		return &doubtError{err}
	}
}

// commit makes the transaction durable. When that takes longer than the caller
// waits, the COMMIT goes on, with the connection and the place among the writers.
func (w *postgresWrite) commit(c *pooledConn) (errorClass, error) {
	answer, left := make(chan error), make(chan struct{})
	go func() {
		err := c.commit(w.commits)
		select {
		case answer <- err:
		case <-left:
			_, _ = w.commitAnswered(c, err) // nobody waits for it
			c.release()
			w.detached.Add(-1)
			<-w.writeSlots
		}
	}()
	timer := time.NewTimer(time.Until(w.deadline))
	defer timer.Stop()
	select {
	case err := <-answer:
		return w.commitAnswered(c, err)
	case <-timer.C:
		w.isDetached = true
		w.detached.Add(1)
		close(left)
		return classOther, fmt.Errorf("sqlstore: commit: %w: the server has not answered; does it wait for a synchronous standby?", metastore.ErrUnknownOutcome)
	}
}

// answered translates the outcome of a COMMIT.
func (w *postgresWrite) commitAnswered(c *pooledConn, err error) (errorClass, error) {
	var doubt *doubtError
	switch {
	case err == nil:
		return w.observe(classOther, nil), nil
	case errors.As(err, &doubt):
		w.inDoubt = true
		return w.observe(classLost, err), err
	default:
		f := c.classify(err)
		return f, translate(f, err)
	}
}
