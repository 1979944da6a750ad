package engine

import (
	"fmt"
	"math"
)

// Bound is a page's remaining room: entries and bytes.
type Bound struct {
	entries int
	bytes   int64
	began   bool
}

// NewBound returns a page's bound; see metastore.ListQuery. 0 bytes are no bound.
func NewBound(entries int, bytes int64) Bound {
	if bytes == 0 {
		bytes = math.MaxInt64
	}
	return Bound{entries: entries, bytes: bytes}
}

// Take reports whether another entry of n bytes is on the page. The first one always is.
func (b *Bound) Take(n int64) bool {
	if b.entries == 0 || b.began && n > b.bytes {
		return false
	}
	b.began = true
	b.entries--
	b.bytes -= n
	return true
}

// CollectPage returns a query's first values, as Collect does, within the bound, and whether there
// are more. weight is the SQL expression for a row's weight, and size returns the same for a value.
// order is the order that from, which has no LIMIT, produces. The bounds are the parameters after
// in.
//
// The database sums the weights, so that it sends the page and one row more.
func CollectPage[T any](t *Tx, left Bound, columns, weight, from, order string, in, out Args, row *T, size func(*T) int64) (list []T, more bool, err error) {
	query := fmt.Sprintf(`SELECT %[1]s FROM (
			SELECT %[1]s, COUNT(*) OVER place AS place, CAST(SUM(weight) OVER place AS BIGINT) - weight AS before
			FROM (SELECT %[1]s, %[2]s AS weight %[3]s ORDER BY %[4]s LIMIT ($%[5]d + 0)) page
			WINDOW place AS (ORDER BY %[4]s ROWS UNBOUNDED PRECEDING)
		) summed WHERE before <= $%[6]d OR place = 2 ORDER BY %[4]s`, columns, weight, from, order, len(in)+1, len(in)+2)
	in = append(in, int64(left.entries)+1, left.bytes)
	err = t.Each(query, in, out, func() error {
		if more = more || !left.Take(size(row)); !more {
			list = append(list, *row)
		}
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	return list, more, nil
}
