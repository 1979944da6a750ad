package sqlstore

import (
	"context"
	"fmt"

	"sluice/metastore"
)

// CreateSession implements metastore.Sessions. ErrExists when the id is taken.
func (s *Store) CreateSession(ctx context.Context, session metastore.Session, idem *metastore.Idempotency) (metastore.Session, error) {
	var out metastore.Session
	err := s.write(ctx, func(t *tx) (err error) {
		out, err = once(t, idem, func() (metastore.Session, error) { return t.addSession(session) })
		return err
	})
	if err != nil {
		return metastore.Session{}, err
	}
	return out, nil
}

func (t *tx) addSession(s metastore.Session) (metastore.Session, error) {
	s.Created, s.Expires = t.now, truncate(s.Expires)
	n, err := t.exec(`INSERT INTO sessions (id, user_identity, total, remaining, created, expires)
		VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (id) DO NOTHING`,
		[]byte(s.ID), []byte(s.UserIdentity), s.Total, s.Left, micros(s.Created), s.Expires.UnixMicro())
	if err == nil && n == 0 {
		err = fmt.Errorf("session: %w", metastore.ErrExists)
	}
	return s, err
}

// Session implements metastore.Sessions.
func (s *Store) Session(ctx context.Context, id string) (metastore.Session, error) {
	var out metastore.Session
	err := s.read(ctx, func(t *tx) (err error) {
		out, err = t.session(id)
		return err
	})
	return out, err
}

// session finds a session that is remembered.
func (t *tx) session(id string) (metastore.Session, error) {
	s := metastore.Session{ID: id}
	found, err := t.row(`SELECT user_identity, total, remaining, created, expires FROM sessions WHERE id = $1`,
		args{[]byte(id)},
		&s.UserIdentity, (*integer)(&s.Total), (*integer)(&s.Left), (*instant)(&s.Created), (*instant)(&s.Expires))
	if err != nil {
		return metastore.Session{}, err
	}
	if !found || !t.now.Before(s.Expires.Add(metastore.SessionMemory)) {
		return metastore.Session{}, fmt.Errorf("session: %w", metastore.ErrNotFound)
	}
	return s, nil
}

// UseSession implements metastore.Sessions.
func (s *Store) UseSession(ctx context.Context, id string, idem *metastore.Idempotency) (metastore.Session, error) {
	if idem == nil {
		return s.uses.use(ctx, id)
	}
	var out metastore.Session
	err := s.write(ctx, func(t *tx) (err error) {
		out, err = once(t, idem, func() (metastore.Session, error) {
			before, granted, err := t.useSession(id, 1)
			if err == nil && granted == 0 {
				err = metastore.ErrExhausted
			}
			before.Left--
			return before, err
		})
		return err
	})
	if err != nil {
		return metastore.Session{}, err
	}
	return out, nil
}

// useSession takes up to want chunksets. It returns the session as it was
// before, and how many were taken. The transaction is isolated, so that the
// row is still as it was read; and the column refuses to go below zero.
func (t *tx) useSession(id string, want int64) (before metastore.Session, granted int64, err error) {
	if before, err = t.session(id); err != nil {
		return before, 0, err
	}
	if !t.now.Before(before.Expires) {
		return before, 0, fmt.Errorf("session: %w", metastore.ErrExpired)
	}
	if granted = min(want, before.Left); granted == 0 {
		return before, 0, nil
	}
	_, err = t.exec(`UPDATE sessions SET remaining = remaining - $2 WHERE id = $1`, []byte(id), granted)
	return before, granted, err
}
