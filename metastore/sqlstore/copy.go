package sqlstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"sluice/metastore"
)

// ErrDiffers is the error of a copy after which a table is not the same on both
// sides: somebody writes to one of them.
var ErrDiffers = errors.New("sqlstore: the copy differs from its source")

const (
	// copyPage is how many rows are read, and committed, at a time.
	copyPage = 1000
	// copyRows is how many rows a statement inserts: over a network each
	// statement costs a round trip.
	copyRows = 100
)

// CopyFrom makes the metadata of s that of another store, of whatever engine:
// everything but the facts and the leases. Nobody else may write to either
// store meanwhile. Rows go over by key, in transactions of a thousand, and
// progress is told their number after each commit. A copy that was cut goes on
// behind the last row that it finds, whose number it tells, too. What then
// differs, because the source went on after the cut, is copied anew.
//
// When it returns nil, every table has been read on both sides, and had as many
// rows there as here, and the same ones. ErrDiffers otherwise.
func (s *Store) CopyFrom(ctx context.Context, from *Store, progress func(rows int64)) error {
	c := copier{from: from, to: s, page: copyPage, progress: progress}
	for i := range copied {
		if err := c.table(ctx, &copied[i]); err != nil {
			return fmt.Errorf("table %s: %w", copied[i].name, err)
		}
	}
	return nil
}

// CountRows tells how many rows CopyFrom takes over from this store.
func (s *Store) CountRows(ctx context.Context) (int64, error) {
	var sum int64
	for i := range copied {
		n, err := s.countRows(ctx, &copied[i])
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

func (s *Store) countRows(ctx context.Context, tb *table) (int64, error) {
	var n int64
	err := s.snapshot(ctx, func(t *tx) error {
		_, err := t.row(tb.selectCount(), nil, (*integer)(&n))
		return err
	})
	return n, err
}

// Properties gives all facts by name.
func (s *Store) Properties(ctx context.Context) (map[string]string, error) {
	var facts map[string]string
	err := s.read(ctx, func(t *tx) error {
		facts = map[string]string{}
		var name, value string
		return t.each(`SELECT name, value FROM facts`, nil, args{&name, &value}, func() error {
			facts[name] = value
			return nil
		})
	})
	return facts, err
}

// live is the condition for the extents whose objects are there for sure. The
// objects of a content that is garbage may have been deleted before its rows.
const live = `object > $1 AND NOT EXISTS (SELECT 1 FROM garbage g WHERE g.content = extents.content)`

// Objects gives up to limit extents that are objects, by key, beginning behind
// the key after (empty: with the first). Those of garbage are left out. Of each
// extent the key, the size and the blocks are set.
func (s *Store) Objects(ctx context.Context, after string, limit int) ([]metastore.Extent, error) {
	var list []metastore.Extent
	err := s.snapshot(ctx, func(t *tx) error {
		list = nil
		var e metastore.Extent
		return t.each(`SELECT object, size, blocks FROM extents WHERE `+live+` ORDER BY object LIMIT ($2 + 0)`,
			args{[]byte(after), int64(limit)},
			args{&e.Key, (*integer)(&e.Size), (*blocks)(&e.Blocks)}, func() error {
				list = append(list, e)
				return nil
			})
	})
	return list, err
}

// CountObjects tells how many extents Objects gives in all, and their bytes.
func (s *Store) CountObjects(ctx context.Context) (objects, bytes int64, err error) {
	err = s.snapshot(ctx, func(t *tx) error {
		_, err := t.row(`SELECT COUNT(*), CAST(COALESCE(SUM(size), 0) AS BIGINT) FROM extents WHERE `+live, args{[]byte{}},
			(*integer)(&objects), (*integer)(&bytes))
		return err
	})
	return objects, bytes, err
}

// copier is one copy.
type copier struct {
	from, to *Store
	page     int
	progress func(rows int64)
}

// table makes a table of the target that of the source.
func (c *copier) table(ctx context.Context, tb *table) error {
	// What the source has moved since may stand in the way; then the table is
	// copied anew.
	if err := c.resume(ctx, tb); err != nil && !errors.Is(err, metastore.ErrExists) {
		return err
	}
	same, err := c.same(ctx, tb)
	if err != nil || same {
		return err
	}
	// As is what a migration has put into an empty database.
	if err := c.clear(ctx, tb); err != nil {
		return err
	}
	if err := c.copy(ctx, tb, nil); err != nil {
		return err
	}
	if same, err = c.same(ctx, tb); err == nil && !same {
		err = ErrDiffers
	}
	return err
}

// resume copies the rows behind the last one that the target has.
func (c *copier) resume(ctx context.Context, tb *table) error {
	have, err := c.to.countRows(ctx, tb)
	if err != nil {
		return err
	}
	c.progress(have)
	var last []any
	err = c.to.read(ctx, func(t *tx) error {
		key := newRow(len(tb.key))
		found, err := t.row(tb.selectLastKey(), nil, key.places()...)
		if last = nil; found {
			last = key.values()
		}
		return err
	})
	if err != nil {
		return err
	}
	return c.copy(ctx, tb, last)
}

// copy copies the rows behind a key, or all of them.
func (c *copier) copy(ctx context.Context, tb *table, after []any) error {
	return c.scan(ctx, c.from, tb, after, func(rows [][]any) error {
		if err := c.insert(ctx, tb, rows); err != nil {
			return err
		}
		c.progress(int64(len(rows)))
		return nil
	})
}

func (c *copier) insert(ctx context.Context, tb *table, rows [][]any) error {
	return c.to.writeLocked(ctx, func(t *tx) error {
		for left := rows; len(left) > 0; {
			n := copyRows
			if len(left) < n {
				n = 1 // so that there are two statements of a table, not a hundred
			}
			var in args
			for _, row := range left[:n] {
				in = append(in, row...)
			}
			if _, err := t.exec(tb.insert(n), in...); err != nil {
				return err
			}
			left = left[n:]
		}
		return nil
	})
}

// clear removes all rows of the target, some in each transaction.
func (c *copier) clear(ctx context.Context, tb *table) error {
	for {
		var n int64
		err := c.to.writeLocked(ctx, func(t *tx) (err error) {
			n, err = t.exec(tb.remove(c.page))
			return err
		})
		if err != nil || n == 0 {
			return err
		}
	}
}

// scan gives the rows behind a key, or all of them, to fn, a page at a time.
func (c *copier) scan(ctx context.Context, s *Store, tb *table, after []any, fn func(rows [][]any) error) error {
	for {
		var page [][]any
		err := s.read(ctx, func(t *tx) error {
			page = nil
			row := newRow(len(tb.columns()))
			return t.each(tb.selectPage(after == nil), append(append(args{}, after...), int64(c.page)), row.places(), func() error {
				page = append(page, row.values())
				return nil
			})
		})
		if err != nil || len(page) == 0 {
			return err
		}
		if err := fn(page); err != nil {
			return err
		}
		if len(page) < c.page {
			return nil
		}
		after = page[len(page)-1][:len(tb.key)]
	}
}

// same reads a table on both sides and tells whether it is the same.
func (c *copier) same(ctx context.Context, tb *table) (bool, error) {
	var sums [2]tableSum
	var errs [2]error
	var sides sync.WaitGroup
	for i, s := range []*Store{c.from, c.to} {
		sides.Go(func() { sums[i], errs[i] = c.sum(ctx, s, tb) })
	}
	sides.Wait()
	return sums[0] == sums[1], errors.Join(errs[:]...)
}

func (c *copier) sum(ctx context.Context, s *Store, tb *table) (tableSum, error) {
	var sum tableSum
	var buf []byte
	err := c.scan(ctx, s, tb, nil, func(rows [][]any) error {
		for _, row := range rows {
			buf = appendRow(buf[:0], row)
			sum.add(sha256.Sum256(buf))
		}
		return nil
	})
	return sum, err
}

// tableSum tells sets of rows apart, whatever their order: their number, and the
// sum of their hashes, in four parts.
type tableSum struct {
	rows   int64
	hashes [4]uint64
}

func (s *tableSum) add(hash [sha256.Size]byte) {
	s.rows++
	for i := range s.hashes {
		s.hashes[i] += binary.BigEndian.Uint64(hash[8*i:])
	}
}

// appendRow appends a row such that no two have the same bytes.
func appendRow(b []byte, row []any) []byte {
	for _, v := range row {
		switch v := v.(type) {
		case int64:
			b = binary.BigEndian.AppendUint64(append(b, 'i'), uint64(v))
		case []byte:
			b = binary.BigEndian.AppendUint64(append(b, 'b'), uint64(len(v)))
			b = append(b, v...)
		default:
			b = append(b, 'n')
		}
	}
	return b
}

// columns is where a row goes, whatever the types of its columns.
type columns []column

// column takes an integer, bytes or NULL, which is nil.
type column struct{ value any }

// Scan takes a value over, bytes as a copy.
func (c *column) Scan(src any) error {
	switch v := src.(type) {
	case nil, int64:
		c.value = v
	case []byte:
		c.value = append([]byte{}, v...)
	default:
		return fmt.Errorf("%T is neither an integer nor bytes", src)
	}
	return nil
}

func newRow(n int) columns { return make(columns, n) }

func (r columns) places() args {
	places := make(args, len(r))
	for i := range r {
		places[i] = &r[i]
	}
	return places
}

func (r columns) values() []any {
	values := make([]any, len(r))
	for i := range r {
		values[i] = r[i].value
	}
	return values
}
