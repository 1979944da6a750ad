// Package acts records administrative actions, in the transactions that make them.
package acts

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"sluice/access/actions"
	"sluice/database/sqlstore/internal/engine"
)

// Record records an act, which may be nil. It returns actions.ErrStale if keys have changed since
// the act was decided, so it must come before the transaction changes keys itself, or
// actions.ErrTooMany.
func Record(t *engine.Tx, act *actions.Act) error {
	if act == nil {
		return nil
	}
	var one engine.Integer
	current, err := t.Row(`SELECT 1 FROM keys_version WHERE version = $1`+t.ForUpdate(), engine.Args{act.Keys}, &one)
	if err != nil {
		return err
	}
	if !current {
		return actions.ErrStale
	}
	var accounts any
	if act.Accounts != nil {
		if accounts, err = json.Marshal(act.Accounts); err != nil {
			return err
		}
	}
	if err := t.Change(`INSERT INTO actions (id, key_id, key_group, source, name, subject, accounts, was, became) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		newID(t.Now), []byte(act.Key), []byte(act.Group), []byte(act.From), []byte(act.Name), []byte(act.Subject), accounts,
		engine.BytesColumn(act.Before), engine.BytesColumn(act.After)); err != nil {
		return err
	}
	return CheckBound(t, act.Bounds.Acts, "actions within 24 hours, by the keys of a group",
		`actions WHERE key_group = $1 AND id >= $2`, []byte(act.Group), before(t.Now.Add(-24*time.Hour)))
}

// CheckBound returns actions.ErrTooMany if there are more than most rows, of some things. most 0
// is no bound. from ends a query for them.
func CheckBound(t *engine.Tx, most int, things, from string, in ...any) error {
	if most == 0 {
		return nil
	}
	var n engine.Integer
	_, err := t.Row(`SELECT COUNT(*) FROM `+from, in, &n)
	if err == nil && int(n) > most {
		err = fmt.Errorf("%w: there may be %d %s", actions.ErrTooMany, most, things)
	}
	return err
}

// idTime is the number of characters in an id that are its time: microseconds in hexadecimal.
const idTime = 16

// newID returns an id for an action at a time.
func newID(at time.Time) []byte {
	var random [8]byte
	rand.Read(random[:]) // never returns an error
	return fmt.Appendf(nil, "%s%x", before(at), random)
}

// before returns a text less than the ids of all actions at a time and later, and not less than
// earlier ones.
func before(at time.Time) []byte { return fmt.Appendf(nil, "%0*x", idTime, at.UnixMicro()) }

// List returns the actions that are older than the one with the id, see actions.Store.
func List(t *engine.Tx, id string, limit int) ([]actions.Action, error) {
	if id == "" {
		id = "g" // after all of hexadecimal's digits
	}
	var a actions.Action
	var accounts []byte
	var list []actions.Action
	err := t.Each(`SELECT id, key_id, key_group, source, name, subject, accounts, was, became FROM actions WHERE id < $1 ORDER BY id DESC LIMIT ($2 + 0)`,
		engine.Args{[]byte(id), int64(limit)},
		engine.Args{&a.ID, &a.Key, &a.Group, &a.From, &a.Name, &a.Subject, &accounts, &a.Before, &a.After}, func() (err error) {
			if a.Time, err = timeOf(a.ID); err != nil {
				return err
			}
			if a.Accounts = nil; accounts != nil {
				err = json.Unmarshal(accounts, &a.Accounts)
			}
			list = append(list, a)
			return err
		})
	return list, err
}

func timeOf(id string) (time.Time, error) {
	var micros int64
	raw, err := hex.DecodeString(id[:min(idTime, len(id))])
	for _, b := range raw {
		micros = micros<<8 | int64(b)
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("the id of an action is %q: %w", id, err)
	}
	return time.UnixMicro(micros).UTC(), nil
}

// Purge deletes up to limit actions that are older than keep.
func Purge(t *engine.Tx, keep time.Duration, limit int) (int, error) {
	n, err := t.Exec(`DELETE FROM actions WHERE id IN (SELECT a.id FROM actions a WHERE a.id < $1 ORDER BY a.id LIMIT $2)`,
		before(t.Now.Add(-keep)), int64(limit))
	return int(n), err
}
