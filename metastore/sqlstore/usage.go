package sqlstore

import (
	"cmp"
	"context"
	"slices"

	"sluice/metastore"
)

// fewRows is how many rows of usage an owner may have before Purge makes them
// one.
const fewRows = 16

// delta is a difference in what an owner takes up.
type delta struct {
	owner          string // empty: nobody, who is not counted
	bytes, uploads int64
}

// count adds one row for each owner of whom something changes.
func (t *tx) count(deltas ...delta) error {
	slices.SortFunc(deltas, func(a, b delta) int { return cmp.Compare(a.owner, b.owner) })
	for len(deltas) > 0 {
		sum := delta{owner: deltas[0].owner}
		for len(deltas) > 0 && deltas[0].owner == sum.owner {
			sum.bytes += deltas[0].bytes
			sum.uploads += deltas[0].uploads
			deltas = deltas[1:]
		}
		if err := t.addUsage(sum); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) addUsage(d delta) error {
	if d.owner == "" || (d.bytes == 0 && d.uploads == 0) {
		return nil
	}
	id := metastore.NewContentID(t.now) // as good an id for a row
	_, err := t.exec(`INSERT INTO usage (owner, id, bytes, uploads) VALUES ($1, $2, $3, $4)`,
		[]byte(d.owner), id[:], d.bytes, d.uploads)
	return err
}

// ownerColumn is the column of an owner: nobody is NULL.
func ownerColumn(owner string) any {
	if owner == "" {
		return nil
	}
	return []byte(owner)
}

// Usage implements metastore.Usage. Its cost grows with the rows that were
// added since the last Purge.
func (s *Store) Usage(ctx context.Context, owner string) (metastore.Used, error) {
	var used metastore.Used
	err := s.read(ctx, func(t *tx) error {
		_, err := t.row(`SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT), CAST(COALESCE(SUM(uploads), 0) AS BIGINT)
			FROM usage WHERE owner = $1`, args{[]byte(owner)}, (*integer)(&used.Bytes), (*integer)(&used.Uploads))
		return err
	})
	return used, err
}

// crowdedOwners gives up to limit owners with more than a few rows. It reads
// all rows, and so is not for a write transaction.
func (s *Store) crowdedOwners(ctx context.Context, limit int) ([]string, error) {
	var owners []string
	err := s.read(ctx, func(t *tx) error {
		owners = nil
		var owner string
		return t.each(`SELECT owner FROM usage GROUP BY owner HAVING COUNT(*) > $1 ORDER BY owner LIMIT ($2 + 0)`,
			args{int64(fewRows), int64(limit)}, args{&owner},
			func() (bool, error) {
				owners = append(owners, owner)
				return true, nil
			})
	})
	return owners, err
}

// compactUsage makes the rows of each owner one, as far as about limit rows go.
// It returns 0 when it has come to the end of them: a busy owner has some more
// at once, and they can wait.
func (t *tx) compactUsage(owners []string, limit int) (int, error) {
	left := limit
	for _, owner := range owners {
		n, err := t.compactOwner(owner, max(left, 2)) // one row alone is no progress
		if err != nil {
			return 0, err
		}
		if left -= n; left <= 0 {
			return limit - left, nil
		}
	}
	return 0, nil
}

// compactOwner makes the first rows of an owner, up to limit of them, one. What
// it adds up is what it deletes, whoever else adds or compacts meanwhile.
func (t *tx) compactOwner(owner string, limit int) (rows int, err error) {
	sum := delta{owner: owner}
	var bytes, uploads int64
	t.changed = true // by a query
	err = t.each(`DELETE FROM usage WHERE owner = $1 AND id IN
		(SELECT u.id FROM usage u WHERE u.owner = $1 ORDER BY u.id LIMIT ($2 + 0)) RETURNING bytes, uploads`,
		args{[]byte(owner), int64(limit)}, args{(*integer)(&bytes), (*integer)(&uploads)},
		func() (bool, error) {
			rows++
			sum.bytes += bytes
			sum.uploads += uploads
			return true, nil
		})
	if err != nil {
		return 0, err
	}
	return rows, t.addUsage(sum)
}
