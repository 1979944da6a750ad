package sqlstore

import (
	"cmp"
	"slices"

	"sluice/metastore"
)

// delta is a difference of the usage of an owner.
type delta struct {
	owner string // empty: none, and the difference is not counted
	metastore.Used
}

// negated returns the difference that undoes d.
func (d delta) negated() delta {
	return delta{d.owner, metastore.Used{
		Bytes: -d.Bytes, Uploads: -d.Uploads, Objects: -d.Objects, Names: -d.Names, Channels: -d.Channels, Retained: -d.Retained,
	}}
}

func (d *delta) add(u metastore.Used) {
	d.Bytes += u.Bytes
	d.Uploads += u.Uploads
	d.Objects += u.Objects
	d.Names += u.Names
	d.Channels += u.Channels
	d.Retained += u.Retained
}

// usedColumns are the columns of metastore.Used in the table usage, in the order of usedFields, and
// summedColumns those in usage_sums. Triggers sum up retained in the table retained_sums, because
// nodes of earlier versions, which do not know it, fold rows too.
const (
	summedColumns = `bytes, uploads, objects, names, channels`
	usedColumns   = summedColumns + `, retained`
)

// usedFields returns the destinations of usedColumns.
func usedFields(u *metastore.Used) args {
	return args{
		(*integer)(&u.Bytes), (*integer)(&u.Uploads), (*integer)(&u.Objects), (*integer)(&u.Names), (*integer)(&u.Channels),
		(*integer)(&u.Retained),
	}
}

// usedValues returns the values of usedColumns.
func usedValues(u metastore.Used) args {
	return args{u.Bytes, u.Uploads, u.Objects, u.Names, u.Channels, u.Retained}
}

// recordUsage inserts one row for each owner whose usage changes.
func recordUsage(t *tx, deltas ...delta) error {
	for _, d := range sums(deltas) {
		if err := insertUsage(t, d); err != nil {
			return err
		}
	}
	return nil
}

// sums returns the sum of the deltas of each owner, in the order of the owners.
func sums(deltas []delta) []delta {
	slices.SortFunc(deltas, func(a, b delta) int { return cmp.Compare(a.owner, b.owner) })
	var list []delta
	for _, d := range deltas {
		if len(list) == 0 || list[len(list)-1].owner != d.owner {
			list = append(list, delta{owner: d.owner})
		}
		list[len(list)-1].add(d.Used)
	}
	return list
}

func insertUsage(t *tx, d delta) error {
	if d.owner == "" || d.Used == (metastore.Used{}) {
		return nil
	}
	id := metastore.NewContentID(t.now) // unique, and begins with the time
	return t.change(`INSERT INTO usage (owner, id, `+usedColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		append(args{[]byte(d.owner), id[:]}, usedValues(d.Used)...)...)
}

// ownRows are the rows whose sum is the usage of the owner $1.
const ownRows = `(SELECT ` + usedColumns + ` FROM usage WHERE owner = $1
	UNION ALL SELECT ` + summedColumns + `, 0 FROM usage_sums WHERE owner = $1
	UNION ALL SELECT 0, 0, 0, 0, 0, retained FROM retained_sums WHERE owner = $1) u`
