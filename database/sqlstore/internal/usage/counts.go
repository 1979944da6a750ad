package usage

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice/database/sqlstore/internal/engine"
)

// Counts names two tables of counts that concurrent writers change. A writer inserts a row of
// differences, so that writers share no row, and Purge moves these rows to the sums. A key's count
// is its row in the sums plus all its rows in the deltas.
type Counts struct {
	Deltas, Sums string   // tables
	Key          string   // column that names what is counted for; deltas have the key (key, id)
	Columns      []string // the counts
}

// Owners counts what each owner stores.
var Owners = Counts{Deltas: "usage", Sums: "usage_sums", Key: "owner", Columns: strings.Split(Columns, ", ")}

// Fold moves up to limit rows of deltas to the sums and returns their number. It reads no
// other rows. It adds exactly the rows that it deletes, regardless of concurrent inserts.
func (c Counts) Fold(t *engine.Tx, limit int) (rows int, err error) {
	// Concurrent folds would wait for each other's rows.
	if err := t.Lock(c.Deltas); err != nil {
		return 0, err
	}
	folded := map[string][]int64{}
	var key string
	one := make([]engine.Integer, len(c.Columns))
	out := engine.Args{&key}
	for i := range one {
		out = append(out, &one[i])
	}
	err = t.Each(fmt.Sprintf(`DELETE FROM %[1]s WHERE (%[2]s, id) IN
		(SELECT u.%[2]s, u.id FROM %[1]s u ORDER BY u.%[2]s, u.id LIMIT ($1 + 0)) RETURNING %[2]s, %[3]s`,
		c.Deltas, c.Key, strings.Join(c.Columns, ", ")), engine.Args{int64(limit)}, out,
		func() error {
			t.Changed = true // each does not set it
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
		if err := c.Add(t, key, folded[key]); err != nil {
			return 0, err
		}
	}
	return rows, nil
}

// Add adds differences to a key's sums, and deletes sums that are zero. Concurrent transactions
// that add wait for each other.
func (c Counts) Add(t *engine.Tx, key string, differences []int64) error {
	in := engine.Args{[]byte(key)}
	var sums, zero []string
	for i, column := range c.Columns {
		in = append(in, differences[i])
		sums = append(sums, fmt.Sprintf("%[1]s = %[2]s.%[1]s + excluded.%[1]s", column, c.Sums))
		zero = append(zero, column+" = 0")
	}
	if _, err := t.Exec(fmt.Sprintf(`INSERT INTO %[1]s (%[2]s, %[3]s) VALUES (%[4]s) ON CONFLICT (%[2]s) DO UPDATE SET %[5]s`,
		c.Sums, c.Key, strings.Join(c.Columns, ", "), engine.Parameters(1, len(in)), strings.Join(sums, ", ")), in...); err != nil {
		return err
	}
	_, err := t.Exec(fmt.Sprintf(`DELETE FROM %s WHERE %s = $1 AND %s`, c.Sums, c.Key, strings.Join(zero, " AND ")), []byte(key))
	return err
}
