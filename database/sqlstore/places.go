package sqlstore

import (
	"context"
	"fmt"
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

// ChangePlaces implements places.Store.
func (s *Store) ChangePlaces(ctx context.Context, account string, some []places.Place, change func(map[places.Place]places.Settings) (*actions.Act, error)) (map[places.Place]places.Settings, error) {
	return engine.ResultOf(ctx, s.in.Write, func(t storeTx) (map[places.Place]places.Settings, error) {
		v, err := t.placesVersion()
		if err != nil {
			return nil, err
		}
		stored, err := t.placesOf(account, some)
		if err != nil {
			return nil, err
		}
		of := map[places.Place]places.Settings{}
		for p, row := range stored {
			of[p] = row.Settings
			if row.Blocked != nil {
				block := *row.Blocked // change may change it
				row.Blocked = &block
				stored[p] = row
			}
		}
		act, err := change(of)
		if err != nil {
			return nil, err
		}
		was := v
		for p, settings := range of {
			row := stored[p]
			if settings.Same(row.Settings) {
				of[p] = row.Settings
				continue
			}
			if v.number == was.number {
				v.number++
			}
			if of[p], err = t.setPlace(&v, p, row, settings); err != nil {
				return nil, err
			}
		}
		if v == was {
			return of, nil
		}
		return of, t.placesChanged(account, was, v, act)
	})
}

// placesOf returns the whole account's row and those for some places, or if some is nil all rows.
func (t storeTx) placesOf(account string, some []places.Place) (map[places.Place]places.Row, error) {
	query, in := `WHERE account = $1`, []any{[]byte(account)}
	if some != nil {
		query += ` AND (name = $2 AND exact = 0`
		in = append(in, []byte{})
		for _, p := range some {
			query += fmt.Sprintf(` OR name = $%d AND exact = %d`, len(in)+1, engine.FlagColumn(p.Exact))
			in = append(in, []byte(p.Name))
		}
		query += `)`
	}
	rows, err := t.places(query, in...)
	of := map[places.Place]places.Row{}
	for _, row := range rows {
		of[row.Place] = row
	}
	return of, err
}

// newMark returns a random number that is not 0.
func newMark() int64 { return 1 + rand.Int64N(1<<63-1) }

// setPlace stores a place's settings, and returns them as stored. was is its row, or zero.
func (t storeTx) setPlace(v *placesVersion, p places.Place, was places.Row, settings places.Settings) (places.Settings, error) {
	is := places.Row{Place: p, Settings: settings}
	block, since := places.Block{}, any(nil)
	if is.Blocked != nil {
		block = *is.Blocked
		if block.Since = t.Now; was.Blocked != nil {
			block.Since = was.Blocked.Since
		}
		since, is.Blocked = engine.Micros(block.Since), &block
	}
	switch {
	case was.Set():
		v.live--
	case was.Place == p:
		v.empty--
	}
	if is.Set() {
		is.Mark = newMark()
		v.live++
	} else {
		v.empty++
	}
	v.marks ^= was.Mark ^ is.Mark
	return is.Settings, t.Change(`INSERT INTO places (account, name, exact, reads, lists, may_open, blocked_since, blocked_reason, blocked_by, mark, number, guard)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (account, name, exact) DO UPDATE SET
		reads = $4, lists = $5, may_open = $6, blocked_since = $7, blocked_reason = $8, blocked_by = $9, mark = $10, number = $11, guard = $12`,
		[]byte(is.Account), []byte(is.Name), engine.FlagColumn(is.Exact), []byte(is.Reads), []byte(is.Lists), engine.FlagColumn(is.MayOpen),
		since, []byte(block.Reason), []byte(block.By), is.Mark, v.number, int64(is.Guard))
}

// placesChanged stores the version after changes in an account, and records the act.
func (t storeTx) placesChanged(account string, was, v placesVersion, act *actions.Act) error {
	if v.live > places.Most {
		return places.ErrTooMany
	}
	if act != nil && v.live > was.live {
		if most := act.Bounds.AllPlaces; most > 0 && v.live > int64(most) {
			return fmt.Errorf("%w: there may be %d places with settings", actions.ErrTooMany, most)
		}
		if err := acts.CheckBound(t.Tx, act.Bounds.Places, "places with settings in an account", `places WHERE account = $1 AND mark <> 0`, []byte(account)); err != nil {
			return err
		}
	}
	if err := acts.Record(t.Tx, act); err != nil {
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
