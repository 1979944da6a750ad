package usage

import (
	"cmp"
	"slices"

	"sluice/database/sqlstore/internal/engine"
	"sluice/metastore"
)

// Delta is a difference in an owner's usage.
type Delta struct {
	Owner string // empty: none, and the difference is not counted
	metastore.Used
}

// Channel returns the difference that a new channel makes.
func Channel(owner string) Delta { return Delta{owner, metastore.Used{Channels: 1}} }

// Row returns the difference that one row makes for its owner.
func Row(owner string) Delta { return Delta{owner, metastore.Used{Retained: metastore.RowCharge}} }

// Negated returns the difference that undoes d.
func (d Delta) Negated() Delta {
	return Delta{d.Owner, metastore.Used{
		Bytes: -d.Bytes, Uploads: -d.Uploads, Objects: -d.Objects, Names: -d.Names, Channels: -d.Channels, Retained: -d.Retained,
	}}
}

func (d *Delta) add(u metastore.Used) {
	d.Bytes += u.Bytes
	d.Uploads += u.Uploads
	d.Objects += u.Objects
	d.Names += u.Names
	d.Channels += u.Channels
	d.Retained += u.Retained
}

// Columns are the columns of metastore.Used in the tables usage and usage_sums, in the order of
// Fields.
const Columns = `bytes, uploads, objects, names, channels, retained`

// Fields returns the destinations of Columns.
func Fields(u *metastore.Used) engine.Args {
	return engine.Args{
		(*engine.Integer)(&u.Bytes), (*engine.Integer)(&u.Uploads), (*engine.Integer)(&u.Objects), (*engine.Integer)(&u.Names), (*engine.Integer)(&u.Channels),
		(*engine.Integer)(&u.Retained),
	}
}

// usedValues returns the values of Columns.
func usedValues(u metastore.Used) engine.Args {
	return engine.Args{u.Bytes, u.Uploads, u.Objects, u.Names, u.Channels, u.Retained}
}

// Record inserts one row for each owner with a changed usage.
func Record(t *engine.Tx, deltas ...Delta) error {
	for _, d := range sums(deltas) {
		if err := insertUsage(t, d); err != nil {
			return err
		}
	}
	return nil
}

// sums returns each owner's sum of deltas, ordered by owner, in their memory.
func sums(deltas []Delta) []Delta {
	slices.SortFunc(deltas, func(a, b Delta) int { return cmp.Compare(a.Owner, b.Owner) })
	list := deltas[:0]
	for _, d := range deltas {
		if len(list) == 0 || list[len(list)-1].Owner != d.Owner {
			list = append(list, Delta{Owner: d.Owner})
		}
		list[len(list)-1].add(d.Used)
	}
	return list
}

func insertUsage(t *engine.Tx, d Delta) error {
	if d.Owner == "" || d.Used == (metastore.Used{}) {
		return nil
	}
	id := engine.NewRowID(t.Now)
	return t.Change(`INSERT INTO usage (owner, id, `+Columns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		append(engine.Args{[]byte(d.Owner), id[:]}, usedValues(d.Used)...)...)
}

// OwnRows are rows that add up to owner $1's usage.
const OwnRows = `(SELECT ` + Columns + ` FROM usage WHERE owner = $1
	UNION ALL SELECT ` + Columns + ` FROM usage_sums WHERE owner = $1) u`
