package sqlstore

import (
	"context"
	"errors"

	"sluice/metastore"
)

// errUnbalanced is the error of a new session whose ledger does not add up.
var errUnbalanced = errors.New("sqlstore: a new session must have all of its chunksets left")

// CreateSession implements metastore.Sessions. It returns ErrExists if the id is in use, and
// an error if Left is not Total.
func (s *Store) CreateSession(ctx context.Context, session metastore.Session, idem *metastore.Idempotency) (metastore.Session, error) {
	return s.writeSession(ctx, func(t *tx) (metastore.Session, error) {
		return once(t, idem, outcomeOfSession, func() (metastore.Session, error) {
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
func (s *Store) writeSession(ctx context.Context, fn func(*tx) (metastore.Session, error)) (metastore.Session, error) {
	var out metastore.Session
	err := s.writeLocked(ctx, func(t *tx) (err error) {
		out, err = fn(t)
		return err
	})
	if err != nil && !errors.Is(err, metastore.ErrExhausted) {
		return metastore.Session{}, err
	}
	return out, err
}

// Session implements metastore.Sessions.
func (s *Store) Session(ctx context.Context, id string) (metastore.Session, error) {
	return resultOf(ctx, s.read, func(t *tx) (metastore.Session, error) { return t.session(id) })
}

// UseSession implements metastore.Sessions.
func (s *Store) UseSession(ctx context.Context, id string, n int64, idem *metastore.Idempotency) (metastore.Session, error) {
	if n < 1 {
		return metastore.Session{}, errNegative
	}
	if idem == nil {
		return s.uses.use(ctx, id, n, "")
	}
	return s.writeSession(ctx, func(t *tx) (metastore.Session, error) {
		var unchanged metastore.Session // once does not return it with an error
		out, err := once(t, idem, outcomeOfSession, func() (_ metastore.Session, err error) {
			unchanged, err = t.useSession(id, n)
			return unchanged, err
		})
		if err != nil {
			return unchanged, err
		}
		return out, nil
	})
}

// ReturnChunksets implements metastore.Sessions. A return is recorded for
// metastore.IdempotencyRetention.
func (s *Store) ReturnChunksets(ctx context.Context, id string, n int64, request string) (metastore.Session, error) {
	if n < 1 {
		return metastore.Session{}, errNegative
	}
	return s.writeSession(ctx, func(t *tx) (metastore.Session, error) {
		out, err := t.session(id)
		if err != nil {
			return out, err
		}
		key := returnID("session", id, request)
		if returned, err := t.marked(key); err != nil || returned {
			return out, err
		}
		if n > out.Used {
			return out, errNotUsed
		}
		out.Left += n
		out.Used -= n
		return out, errors.Join(t.recordUse(id, -n), t.mark(key))
	})
}
