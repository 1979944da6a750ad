package sqlstore

import (
	"context"
	"math/rand/v2"

	"sluice/access/actions"
	"sluice/access/places"
	"sluice/database/sqlstore/internal/acts"
	"sluice/database/sqlstore/internal/engine"
)

// mostEmptyPlaces is how many places without settings remain, for nodes that have yet to see that
// their settings are gone. When there are more, all are deleted, and nodes load all places anew.
const mostEmptyPlaces = 1000

// placeQuery begins a query for places. Its columns are in placeFields' order.
const placeQuery = `SELECT account, name, exact, reads, lists, may_open, guard, blocked_since, blocked_reason, blocked_by, mark FROM places `

// placeRow is a row as it is scanned.
type placeRow struct {
	places.Row
	block places.Block
}

func (r *placeRow) fields() engine.Args {
	return engine.Args{
		&r.Account, &r.Name, (*engine.Boolean)(&r.Exact), &r.Reads, &r.Lists, (*engine.Boolean)(&r.MayOpen), (*engine.Integer)(&r.Guard),
		(*engine.Instant)(&r.block.Since), &r.block.Reason, &r.block.By, (*engine.Integer)(&r.Mark),
	}
}

// row returns the row with a block of its own.
func (r *placeRow) row() places.Row {
	row := r.Row
	if !r.block.Since.IsZero() {
		block := r.block
		row.Blocked = &block
	}
	return row
}

// places returns a query's rows.
func (t storeTx) places(query string, in ...any) (list []places.Row, err error) {
	var r placeRow
	err = t.Each(placeQuery+query, in, r.fields(), func() error {
		list = append(list, r.row())
		return nil
	})
	return list, err
}

// placesVersion is the only row in places_version.
type placesVersion struct{ number, marks, live, empty, forgotten int64 }

// placesVersion returns the version, or a zero one if there never was a place.
func (t storeTx) placesVersion() (v placesVersion, err error) {
	_, err = t.Row(`SELECT number, marks, live, empty, forgotten FROM places_version`, nil,
		(*engine.Integer)(&v.number), (*engine.Integer)(&v.marks), (*engine.Integer)(&v.live), (*engine.Integer)(&v.empty), (*engine.Integer)(&v.forgotten))
	return v, err
}

// ChangePlace implements places.Store.
func (s *Store) ChangePlace(ctx context.Context, p places.Place, change func(*places.Settings, places.Settings) (*actions.Act, error)) (places.Settings, error) {
	return engine.ResultOf(ctx, s.in.Write, func(t storeTx) (places.Settings, error) {
		v, err := t.placesVersion()
		if err != nil {
			return places.Settings{}, err
		}
		found, err := t.places(`WHERE account = $1 AND name = $2 AND exact = $3`, []byte(p.Account), []byte(p.Name), engine.FlagColumn(p.Exact))
		if err != nil {
			return places.Settings{}, err
		}
		was := places.Row{Place: p}
		if len(found) > 0 {
			was = found[0]
		}
		is := places.Row{Place: p, Settings: was.Settings}
		if was.Blocked != nil {
			block := *was.Blocked // change may change it, and run again
			is.Blocked = &block
		}
		account, err := t.places(`WHERE account = $1 AND name = $2 AND exact = 0`, []byte(p.Account), []byte{})
		if err != nil {
			return places.Settings{}, err
		}
		act, err := change(&is.Settings, append(account, places.Row{})[0].Settings)
		if err == nil {
			err = acts.Record(t.Tx, act)
		}
		if err != nil {
			return places.Settings{}, err
		}
		if is.Blocked != nil {
			is.Blocked.Since = t.Now
			if was.Blocked != nil {
				is.Blocked.Since = was.Blocked.Since
			}
		}
		if is.Set() {
			is.Mark = newMark()
		}
		return is.Settings, t.setPlace(v, was, len(found) > 0, is)
	})
}

// newMark returns a random number that is not 0.
func newMark() int64 { return 1 + rand.Int64N(1<<63-1) }

// setPlace stores a place. stored reports whether there is a row for it.
func (t storeTx) setPlace(v placesVersion, was places.Row, stored bool, is places.Row) error {
	v.number++
	v.marks ^= was.Mark ^ is.Mark
	switch {
	case was.Set():
		v.live--
	case stored:
		v.empty--
	case !is.Set():
		return nil // there is nothing to forget
	}
	if is.Set() {
		v.live++
	} else {
		v.empty++
	}
	if v.live > places.Most {
		return places.ErrTooMany
	}
	block, since := places.Block{}, any(nil)
	if is.Blocked != nil {
		block, since = *is.Blocked, engine.Micros(is.Blocked.Since)
	}
	if err := t.Change(`INSERT INTO places (account, name, exact, reads, lists, may_open, blocked_since, blocked_reason, blocked_by, mark, number, guard)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (account, name, exact) DO UPDATE SET
		reads = $4, lists = $5, may_open = $6, blocked_since = $7, blocked_reason = $8, blocked_by = $9, mark = $10, number = $11, guard = $12`,
		[]byte(is.Account), []byte(is.Name), engine.FlagColumn(is.Exact), []byte(is.Reads), []byte(is.Lists), engine.FlagColumn(is.MayOpen),
		since, []byte(block.Reason), []byte(block.By), is.Mark, v.number, int64(is.Guard)); err != nil {
		return err
	}
	if v.empty > mostEmptyPlaces {
		if err := t.Change(`DELETE FROM places WHERE mark = 0`); err != nil {
			return err
		}
		v.empty, v.forgotten = 0, v.number
	}
	return t.Change(`INSERT INTO places_version (one, number, marks, live, empty, forgotten) VALUES (0, $1, $2, $3, $4, $5)
		ON CONFLICT (one) DO UPDATE SET number = $1, marks = $2, live = $3, empty = $4, forgotten = $5`,
		v.number, v.marks, v.live, v.empty, v.forgotten)
}

// ListPlaces implements places.Store.
func (s *Store) ListPlaces(ctx context.Context, account string, after places.Place, limit int) ([]places.Row, error) {
	exact := engine.FlagColumn(after.Exact)
	if after == (places.Place{}) {
		exact = -1 // before every place
	}
	return engine.ResultOf(ctx, s.in.ReadList, func(t storeTx) ([]places.Row, error) {
		if account != "" {
			return t.places(`WHERE mark <> 0 AND account = $1 AND (name, exact) > ($2, $3) ORDER BY name, exact LIMIT ($4 + 0)`,
				[]byte(account), []byte(after.Name), exact, int64(limit))
		}
		return t.places(`WHERE mark <> 0 AND (account, name, exact) > ($1, $2, $3) ORDER BY account, name, exact LIMIT ($4 + 0)`,
			[]byte(after.Account), []byte(after.Name), exact, int64(limit))
	})
}

// PlaceChanges implements places.Store.
func (s *Store) PlaceChanges(ctx context.Context, since places.Version) (places.Changes, error) {
	// Most calls find nothing new, by one query.
	unchanged, err := engine.ResultOf(ctx, s.in.Read, func(t storeTx) (bool, error) {
		v, err := t.placesVersion()
		return since == places.Version{Number: v.number, Sum: v.marks}, err
	})
	if err != nil || unchanged {
		return places.Changes{Version: since}, err
	}
	return engine.ResultOf(ctx, s.in.Snapshot, func(t storeTx) (c places.Changes, err error) {
		v, err := t.placesVersion()
		if err != nil {
			return c, err
		}
		c.Version = places.Version{Number: v.number, Sum: v.marks}
		if c.Whole = since.Number == 0 || since.Number >= v.number || since.Number < v.forgotten; c.Whole {
			c.Rows, err = t.places(`WHERE mark <> 0`)
		} else {
			c.Rows, err = t.places(`WHERE number > $1`, since.Number)
		}
		return c, err
	})
}
