package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
)

// With a synchronous standby, COMMIT waits until the standby has the transaction. A request
// to cancel does not undo it: PostgreSQL stops waiting, sends a warning and reports the
// transaction as committed, although the standby lacks it and may become the next primary
// (https://www.postgresql.org/docs/current/warm-standby.html, section 27.2.8.4). pgx sends
// such requests by itself if a context ends or a connection breaks. Therefore a COMMIT runs
// under a context without a deadline, its connection sends no request to cancel during it,
// and a COMMIT with a warning is in doubt. So is one whose socket was closed because its server
// hangs or another is the primary.

// interrupt cancels a statement when its context ends. A server that can be reached then
// returns an error for the statement, and one that cannot does not respond.
func interrupt(c *pgconn.PgConn) ctxwatch.Handler {
	return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: cancelTimeout}
}

// cancelTimeout is how long a server may take to cancel a statement.
const cancelTimeout = 5 * time.Second

// doubtError is the error for a COMMIT with an unknown outcome, on the server or on a required
// standby.
type doubtError struct{ err error }

// Error implements error.
func (e *doubtError) Error() string { return "COMMIT in doubt: " + e.err.Error() }

// Unwrap returns the cause.
func (e *doubtError) Unwrap() error { return e.err }

// commit sends COMMIT and waits for its response without a timeout, or until ctx is cancelled,
// which closes the connection. Only a server's error with severity ERROR shows that the transaction
// was not committed.
func (c *postgresConn) commit(ctx context.Context) error {
	s := sessionOf(c.conn.PgConn())
	s.warning.Store(nil)
	s.committing.Store(int64(s.all.time()))
	defer context.AfterFunc(ctx, func() { _ = c.conn.PgConn().Conn().Close() })()
	results, err := c.conn.PgConn().Exec(context.Background(), "COMMIT").ReadAll()
	if !c.conn.IsClosed() {
		s.committing.Store(0)
	}
	var e *pgconn.PgError
	warning, ended := s.warning.Load(), s.ended.Load()
	switch {
	case ended != nil && err == nil: // the new primary may lack it
		if errors.Is(*ended, errOlderPrimary) {
			s.all.late.Add(1)
		}
		return &doubtError{*ended}
	case ended != nil:
		return &doubtError{fmt.Errorf("%w: %w", *ended, err)}
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
