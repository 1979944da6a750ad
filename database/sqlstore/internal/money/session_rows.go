package money

import (
	"errors"
	"fmt"
	"math"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/ledger"
)

// sessionColumns are a session's columns, in sessionFields' order.
const sessionColumns = `id, user_identity, channel, total, remaining, used, created, expires`

// sessionFields returns the destinations of sessionColumns.
func sessionFields(s *ledger.Session) engine.Args {
	return engine.Args{
		&s.ID, &s.UserIdentity, (*engine.OptionalText)(&s.Channel), (*engine.Integer)(&s.Total), (*engine.Integer)(&s.Left), (*engine.Integer)(&s.Used),
		(*engine.Instant)(&s.Created), (*engine.Instant)(&s.Expires),
	}
}

// sessionSum returns the checksum of a session's row.
func sessionSum(s *ledger.Session) int64 {
	return engine.BeginRowSum().Text(s.ID).Text(s.UserIdentity).Text(s.Channel).Int(s.Total).Int(s.Created.UnixMicro()).Sum()
}

// checkSum returns database.ErrDamagedRow unless a session has its counts, and its row has its
// checksum, or none.
func checkSum(s *ledger.Session, stored engine.StoredSum) error {
	if s.Left < 0 || s.Used < 0 {
		return engine.DamagedRow("the counts of session %.6s", s.ID)
	}
	if stored.Known() && stored.Differs(sessionSum(s)) {
		return engine.DamagedRow("the row of session %.6s", s.ID)
	}
	return nil
}

// addSession inserts an unused session with s.Total chunksets.
func (t tx) addSession(s ledger.Session) (ledger.Session, error) {
	s.Left, s.Used, s.Created, s.Expires = s.Total, 0, t.Now, engine.Truncate(s.Expires)
	var channel any // NULL when it was granted
	if s.Channel != "" {
		channel = []byte(s.Channel)
	}
	n, err := t.Exec(t.sessionStatements().add,
		[]byte(s.ID), []byte(s.UserIdentity), channel, s.Total, engine.Micros(s.Created), s.Expires.UnixMicro(), sessionSum(&s))
	if err == nil && n == 0 {
		err = fmt.Errorf("session: %w", database.ErrExists)
	}
	return s, err
}

// refillSession adds bought chunksets to a session that has not expired.
func (t tx) refillSession(id string, count int64) (ledger.Session, error) {
	s, err := t.liveSession(id)
	if err != nil {
		return s, err
	}
	if count > math.MaxInt64-s.Total {
		return s, fmt.Errorf("session: %w", ledger.ErrAmountOverflow)
	}
	s.Total += count
	s.Left += count
	return s, t.Change(`UPDATE sessions SET total = $2, remaining = $3, row_sum = $4 WHERE id = $1`, []byte(id), s.Total, s.Left, sessionSum(&s))
}

// session returns a session, unless its retention has ended.
func (t tx) session(id string) (ledger.Session, error) {
	var s ledger.Session
	var sum engine.StoredSum
	found, err := t.Row(`SELECT `+sessionColumns+`, row_sum FROM sessions WHERE id = $1`+t.ForUpdate(), engine.Args{[]byte(id)}, append(sessionFields(&s), &sum)...)
	if err == nil && found {
		err = checkSum(&s, sum)
	}
	if err == nil {
		err = t.remembered(id, s, found)
	}
	if err != nil {
		return ledger.Session{}, err
	}
	return s, nil
}

// remembered returns ErrNotFound unless a session was found and its retention has not ended.
func (t tx) remembered(id string, s ledger.Session, found bool) error {
	if !found {
		return t.Missing("session", id)
	}
	if !s.Expires.After(t.Forgotten(ledger.SessionRetention)) {
		return fmt.Errorf("session: %w", database.ErrNotFound)
	}
	return nil
}

// liveSession returns a session that has not expired.
func (t tx) liveSession(id string) (ledger.Session, error) {
	s, err := t.session(id)
	if err == nil {
		err = t.live(s)
	}
	return s, err
}

// live returns ErrExpired if a session has expired.
func (t tx) live(s ledger.Session) error {
	if !t.Now.Before(s.Expires) {
		return fmt.Errorf("session: %w", database.ErrExpired)
	}
	return nil
}

func (t tx) useSession(id string, n int64) (ledger.Session, error) {
	s, err := t.liveSession(id)
	if err != nil {
		return s, err
	}
	if err := deduct(&s, n); err != nil {
		return s, err
	}
	return s, t.recordUse(id, n)
}

// deduct uses n of a session's chunksets, or none if it has fewer left.
func deduct(s *ledger.Session, n int64) error {
	if n > s.Left {
		return fmt.Errorf("session: %w", ledger.ErrExhausted)
	}
	s.Left -= n
	s.Used += n
	return nil
}

// recordUse writes a use of n chunksets, or a return if n is negative. The row has not changed
// since it was read, because the transaction locked it (on PostgreSQL it is READ COMMITTED with row
// locks), and the columns' constraints refuse negative counts.
func (t tx) recordUse(id string, n int64) error {
	return t.Change(`UPDATE sessions SET remaining = remaining - $2, used = used + $2 WHERE id = $1`, []byte(id), n)
}

// takeFromSession uses n of a session's chunksets, and returns the session after that. It returns
// false, and does nothing, unless there is such a session that has not ended and has n chunksets
// left.
func (t tx) takeFromSession(id string, n int64) (s ledger.Session, found bool, err error) {
	var sum engine.StoredSum
	in, out := engine.Args{[]byte(id), n, engine.Micros(t.Now)}, append(sessionFields(&s), &sum)
	const columns = sessionColumns + `, row_sum`
	if take := t.sessionStatements().take; t.Embedded() {
		changed, err := t.Exec(take, in...)
		if err != nil || changed == 0 {
			return s, false, err
		}
		found, err = t.Row(`SELECT `+columns+` FROM sessions WHERE id = $1`, in[:1], out...)
		if err != nil {
			return s, false, err
		}
	} else {
		found, err = t.Row(take+` RETURNING `+columns, in, out...)
	}
	t.Changed = t.Changed || found
	if err == nil && found {
		if err = checkSum(&s, sum); err != nil { // the transaction may continue with other sessions
			err = errors.Join(err, t.recordUse(id, -n))
		}
	}
	return s, found, err
}

// take is a number of chunksets to take from a session.
type take struct {
	id string
	n  int64

	taken bool
	after ledger.Session
	err   error // the row is damaged, and nothing was taken
}

// takeFromFree takes from each session that has enough left, has not ended and is not locked. It
// does not wait for locks. The engine must be PostgreSQL.
func (t tx) takeFromFree(takes []take) error {
	if len(takes) == 0 {
		return nil
	}
	ids, counts, places := make([][]byte, len(takes)), make([]int64, len(takes)), make(map[string]*take, len(takes))
	for i := range takes {
		one := &takes[i]
		one.taken, one.err = false, nil
		ids[i], counts[i], places[one.id] = []byte(one.id), one.n, one
	}
	var s ledger.Session
	var sum engine.StoredSum
	var damaged []*take
	// A row that has changed since the statement began is locked, compared and updated in its last
	// version (READ COMMITTED).
	err := t.Each(`WITH free AS MATERIALIZED (SELECT id FROM sessions WHERE id = ANY ($1::bytea[]) FOR NO KEY UPDATE SKIP LOCKED)
		UPDATE sessions AS s SET remaining = s.remaining - w.n, used = s.used + w.n
		FROM free JOIN unnest($1::bytea[], $2::bigint[]) AS w (id, n) USING (id)
		WHERE s.id = w.id AND s.remaining >= w.n AND s.expires > $3
		RETURNING s.id, user_identity, channel, total, remaining, used, created, expires, row_sum`,
		engine.Args{ids, counts, engine.Micros(t.Now)}, append(sessionFields(&s), &sum), func() error {
			one := places[s.ID]
			one.taken, one.after = true, s
			if one.err = checkSum(&s, sum); one.err != nil {
				damaged = append(damaged, one)
			}
			t.Changed = true
			return nil
		})
	for _, one := range damaged {
		err = errors.Join(err, t.recordUse(one.id, -one.n))
	}
	return err
}

// takeIfUnchanged uses n of a session's chunksets; at least n must be left. It returns false, and
// does nothing, unless the row is still s. The other columns never change, and a row that replaces
// another with its id has another time of creation.
func (t tx) takeIfUnchanged(s ledger.Session, n int64) (bool, error) {
	changed, err := t.Exec(t.sessionStatements().takeIfUnchanged,
		[]byte(s.ID), n, s.Left, s.Used, s.Total, s.Created.UnixMicro())
	return changed > 0, err
}

// errNotUsed is the error for returning chunksets that were never used.
var errNotUsed = errors.New("sqlstore: more would be returned than was used")
