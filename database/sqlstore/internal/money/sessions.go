package money

import (
	"context"
	"errors"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/requests"
	"sluice/ledger"
)

// errUnbalanced is the error for a new session with counts that do not add up.
var errUnbalanced = errors.New("sqlstore: a new session must have all of its chunksets left")

// CreateSession implements ledger.Sessions. It returns ErrExists if the id is in use, and
// an error if Left is not Total.
func (s *Ledger) CreateSession(ctx context.Context, session ledger.Session, idem *database.Idempotency) (ledger.Session, error) {
	return s.writeSession(ctx, func(t tx) (ledger.Session, error) {
		return once(t, idem, outcomeOfSession, func() (ledger.Session, error) {
			if session.Left != session.Total || session.Total < 0 {
				return session, errUnbalanced
			}
			granted := session
			granted.Channel = ""
			return t.addSession(granted)
		})
	})
}

// writeSession runs a transaction that returns a session. With ErrExhausted it returns the
// unchanged session.
func (s *Ledger) writeSession(ctx context.Context, fn func(tx) (ledger.Session, error)) (ledger.Session, error) {
	var out ledger.Session
	err := s.in.WriteLocked(ctx, func(t tx) (err error) {
		out, err = fn(t)
		return err
	})
	if err != nil && !errors.Is(err, ledger.ErrExhausted) {
		return ledger.Session{}, err
	}
	return out, err
}

// Session implements ledger.Sessions.
func (s *Ledger) Session(ctx context.Context, id string) (ledger.Session, error) {
	return engine.ResultOf(ctx, s.in.Read, func(t tx) (ledger.Session, error) { return t.session(id) })
}

// UseSession implements ledger.Sessions.
func (s *Ledger) UseSession(ctx context.Context, id string, n int64, idem *database.Idempotency) (ledger.Session, error) {
	if n < 1 {
		return ledger.Session{}, errNegative
	}
	if idem == nil {
		return s.uses.use(ctx, id, n, "")
	}
	return s.writeSession(ctx, func(t tx) (ledger.Session, error) {
		var unchanged ledger.Session // once does not return it with an error
		out, err := once(t, idem, outcomeOfSession, func() (_ ledger.Session, err error) {
			unchanged, err = t.useSession(id, n)
			return unchanged, err
		})
		if err != nil {
			return unchanged, err
		}
		return out, nil
	})
}

// ReturnChunksets implements ledger.Sessions. A return is recorded for
// database.IdempotencyRetention.
func (s *Ledger) ReturnChunksets(ctx context.Context, id string, n int64, request string) (ledger.Session, error) {
	if n < 1 {
		return ledger.Session{}, errNegative
	}
	return s.writeSession(ctx, func(t tx) (ledger.Session, error) {
		out, err := t.session(id)
		if err != nil {
			return out, err
		}
		key := returnID("session", id, request)
		if returned, err := requests.Marked(t.Tx, key); err != nil || returned {
			return out, err
		}
		if n > out.Used {
			return out, errNotUsed
		}
		out.Left += n
		out.Used -= n
		return out, errors.Join(t.recordUse(id, -n), requests.Mark(t.Tx, key))
	})
}
