package sqlstore

import (
	"fmt"
	"math"
)

// bound is what is left of the entries and the bytes of a page.
type bound struct {
	entries int
	bytes   int64
	began   bool
}

// newBound returns the bound of a page; see metastore.ListQuery. 0 bytes are no bound.
func newBound(entries int, bytes int64) bound {
	if bytes == 0 {
		bytes = math.MaxInt64
	}
	return bound{entries: entries, bytes: bytes}
}

// take reports whether another entry of n bytes is on the page. The first one always is.
func (b *bound) take(n int64) bool {
	if b.entries == 0 || b.began && n > b.bytes {
		return false
	}
	b.began = true
	b.entries--
	b.bytes -= n
	return true
}

// collectPage returns the first values of a query, as collect does, within the bound, and whether there are
// more. weight is the SQL expression for what a row counts, and size the same for the value. order is that
// of from, which has no LIMIT. The parameters that follow those of in are the bounds.
//
// The database sums the weights, so that it sends the page and one row more.
func collectPage[T any](t *tx, left bound, columns, weight, from, order string, in, out args, row *T, size func(*T) int64) (list []T, more bool, err error) {
	query := fmt.Sprintf(`SELECT %[1]s FROM (
			SELECT %[1]s, COUNT(*) OVER place AS place, CAST(SUM(weight) OVER place AS BIGINT) - weight AS before
			FROM (SELECT %[1]s, %[2]s AS weight %[3]s ORDER BY %[4]s LIMIT ($%[5]d + 0)) page
			WINDOW place AS (ORDER BY %[4]s ROWS UNBOUNDED PRECEDING)
		) summed WHERE before <= $%[6]d OR place = 2 ORDER BY %[4]s`, columns, weight, from, order, len(in)+1, len(in)+2)
	in = append(in, int64(left.entries)+1, left.bytes)
	err = t.each(query, in, out, func() error {
		if more = more || !left.take(size(row)); !more {
			list = append(list, *row)
		}
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	return list, more, nil
}
