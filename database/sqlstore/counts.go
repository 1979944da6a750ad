package sqlstore

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// counts are the tables of counts that concurrent writers change. A writer inserts a row of
// differences, so that writers share no row, and Purge moves these rows to the sums. What is
// counted for a key is its row of sums plus all its rows of deltas.
type counts struct {
	deltas, sums string   // tables
	key          string   // column of what is counted for; deltas have the key (key, id)
	columns      []string // the counts
}

// usageCounts are what owners store.
var usageCounts = counts{deltas: "usage", sums: "usage_sums", key: "owner", columns: strings.Split(summedColumns, ", ")}

// fold moves up to limit rows of deltas to the sums and returns their number. It reads no
// other rows. It adds exactly the rows that it deletes, regardless of concurrent inserts.
func (c counts) fold(t *tx, limit int) (rows int, err error) {
	// Concurrent folds would wait for each other's rows.
	if err := t.lock(c.deltas); err != nil {
		return 0, err
	}
	folded := map[string][]int64{}
	var key string
	one := make([]integer, len(c.columns))
	out := args{&key}
	for i := range one {
		out = append(out, &one[i])
	}
	err = t.each(fmt.Sprintf(`DELETE FROM %[1]s WHERE (%[2]s, id) IN
		(SELECT u.%[2]s, u.id FROM %[1]s u ORDER BY u.%[2]s, u.id LIMIT ($1 + 0)) RETURNING %[2]s, %[3]s`,
		c.deltas, c.key, strings.Join(c.columns, ", ")), args{int64(limit)}, out,
		func() error {
			t.changed = true // each does not set it
			rows++
			if folded[key] == nil {
				folded[key] = make([]int64, len(one))
			}
			for i := range one {
				folded[key][i] += int64(one[i])
			}
			return nil
		})
	if err != nil {
		return 0, err
	}
	for _, key := range slices.Sorted(maps.Keys(folded)) {
		if err := c.add(t, key, folded[key]); err != nil {
			return 0, err
		}
	}
	return rows, nil
}

// add adds differences to the sums of a key, and deletes sums that are zero.
func (c counts) add(t *tx, key string, differences []int64) error {
	in := args{[]byte(key)}
	var sums, zero []string
	for i, column := range c.columns {
		in = append(in, differences[i])
		sums = append(sums, fmt.Sprintf("%[1]s = %[2]s.%[1]s + excluded.%[1]s", column, c.sums))
		zero = append(zero, column+" = 0")
	}
	if _, err := t.exec(fmt.Sprintf(`INSERT INTO %[1]s (%[2]s, %[3]s) VALUES (%[4]s) ON CONFLICT (%[2]s) DO UPDATE SET %[5]s`,
		c.sums, c.key, strings.Join(c.columns, ", "), parameters(1, len(in)), strings.Join(sums, ", ")), in...); err != nil {
		return err
	}
	_, err := t.exec(fmt.Sprintf(`DELETE FROM %s WHERE %s = $1 AND %s`, c.sums, c.key, strings.Join(zero, " AND ")), []byte(key))
	return err
}
