package sqlstore

import (
	"cmp"
	"context"
	"slices"

	"sluice/metastore"
)

// delta is a difference of the usage of an owner.
type delta struct {
	owner string // empty: none, and the difference is not counted
	metastore.Used
}

// blobUsage returns the usage of a blob.
func blobUsage(b metastore.Blob) delta {
	return delta{b.Owner, metastore.Used{Bytes: b.Size, Objects: 1, Names: int64(len(b.Name) + len(b.Metadata))}}
}

// blobGarbage returns the usage of the content of a blob as garbage.
func blobGarbage(b metastore.Blob) delta { return garbageUsage(b.Owner, b.Size, 1) }

// garbageUsage returns the usage of a content that is garbage.
func garbageUsage(owner string, bytes, parts int64) delta {
	return delta{owner, metastore.Used{Retained: metastore.GarbageCharge(bytes, parts)}}
}

// uploadGarbage returns the usage of the content of an open upload after it was aborted.
func uploadGarbage(u metastore.Upload) delta { return garbageUsage(u.Owner, u.Bytes, u.Parts) }

// outcomeUsage returns the usage of the outcome of an upload.
func outcomeUsage(u metastore.Upload) delta {
	return delta{u.Owner, metastore.Used{Retained: metastore.OutcomeCharge(u.Name)}}
}

// uploadUsage returns the usage of an open upload.
func uploadUsage(u metastore.Upload) delta {
	return delta{u.Owner, metastore.Used{Bytes: u.Bytes, Uploads: 1, Objects: u.Parts, Names: int64(len(u.Name) + len(u.Metadata))}}
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
func (t *tx) recordUsage(deltas ...delta) error {
	for _, d := range sums(deltas) {
		if err := t.insertUsage(d); err != nil {
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

func (t *tx) insertUsage(d delta) error {
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

// Usage implements metastore.Usage. Its cost grows with the number of rows that were inserted
// since the last Purge.
func (s *Store) Usage(ctx context.Context, owner string) (metastore.Used, error) {
	var used metastore.Used
	err := s.read(ctx, func(t *tx) error {
		_, err := t.row(`SELECT CAST(COALESCE(SUM(u.bytes), 0) AS BIGINT), CAST(COALESCE(SUM(u.uploads), 0) AS BIGINT),
			CAST(COALESCE(SUM(u.objects), 0) AS BIGINT), CAST(COALESCE(SUM(u.names), 0) AS BIGINT), CAST(COALESCE(SUM(u.channels), 0) AS BIGINT),
			CAST(COALESCE(SUM(u.retained), 0) AS BIGINT)
			FROM `+ownRows, args{[]byte(owner)}, usedFields(&used)...)
		return err
	})
	return used, err
}
