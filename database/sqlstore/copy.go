package sqlstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/meta"
	"sluice/database/sqlstore/internal/usage"
	"sluice/metastore"
)

// ErrDiffers is returned by CopyFrom if a table differs from its source afterwards, because
// one of them was written to during the copy.
var ErrDiffers = errors.New("sqlstore: the copy differs from its source")

const (
	// copyPage is the number of rows that are read and committed at a time.
	copyPage = 1000
)

// CopyFrom replaces everything in s, except properties, leases and nodes, by what another store
// has. The stores may have different engines. CopyFrom does not copy the counts of accounts: the
// triggers of s count the blobs that it gets. Neither store may be written to during the copy. Rows
// are copied by key in transactions of 1,000 rows, and progress is called with their number after
// each commit. An interrupted copy is resumed after the last row that it finds; progress is called
// with how many rows came before it. Tables that then differ, because the source changed after the
// interruption, are copied again.
//
// If it returns nil, it has read every copied table in both stores and found the same rows. If a
// table differs, it returns ErrDiffers.
func (s *Store) CopyFrom(ctx context.Context, from *Store, progress func(rows int64)) error {
	c := copier{from: from, to: s, page: copyPage, progress: progress}
	for i := range copied {
		if err := c.table(ctx, &copied[i]); err != nil {
			return fmt.Errorf("table %s: %w", copied[i].name, err)
		}
	}
	return s.foldAll(ctx, meta.AccountCounts)
}

// foldAll folds all deltas, in transactions of 1,000 rows.
func (s *Store) foldAll(ctx context.Context, c usage.Counts) error {
	for rows := copyPage; rows == copyPage; {
		err := s.writeLocked(ctx, func(t storeTx) (err error) {
			rows, err = c.Fold(t.Tx, copyPage)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// CountRows returns the number of rows that CopyFrom copies from this store.
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
	err := s.snapshot(ctx, func(t storeTx) error {
		_, err := t.Row(tb.selectCount(), nil, (*engine.Integer)(&n))
		return err
	})
	return n, err
}

// Properties returns all properties by name.
func (s *Store) Properties(ctx context.Context) (map[string]string, error) {
	var facts map[string]string
	err := s.read(ctx, func(t storeTx) (err error) {
		facts, err = t.properties()
		return err
	})
	return facts, err
}

func (t storeTx) properties() (map[string]string, error) {
	facts := map[string]string{}
	var name, value string
	err := t.Each(`SELECT name, value FROM facts`, nil, engine.Args{&name, &value}, func() error {
		facts[name] = value
		return nil
	})
	return facts, err
}

// isGarbage is the condition for extents in garbage, which may have no objects any more.
const isGarbage = `EXISTS (SELECT 1 FROM garbage g WHERE g.content = extents.content)`

// Object is an extent that is an object.
type Object = metastore.StoredExtent

// HasObject reports whether an extent that is no garbage is the object of this name.
func (s *Store) HasObject(ctx context.Context, name string) (bool, error) {
	var found bool
	err := s.read(ctx, func(t storeTx) (err error) {
		var one engine.Integer
		found, err = t.Row(`SELECT 1 FROM extents WHERE object = $1 AND NOT `+isGarbage, engine.Args{[]byte(name)}, &one)
		return err
	})
	return found, err
}

// CountObjects returns the number and the bytes of all objects that are no garbage.
func (s *Store) CountObjects(ctx context.Context) (objects, bytes int64, err error) {
	err = s.snapshot(ctx, func(t storeTx) error {
		_, err := t.Row(`SELECT COUNT(*), CAST(COALESCE(SUM(size), 0) AS BIGINT) FROM extents WHERE object > $1 AND NOT `+isGarbage, engine.Args{[]byte{}},
			(*engine.Integer)(&objects), (*engine.Integer)(&bytes))
		return err
	})
	return objects, bytes, err
}

// copier is a running CopyFrom.
type copier struct {
	from, to *Store
	page     int
	progress func(rows int64)
}

// table copies a table.
func (c *copier) table(ctx context.Context, tb *table) error {
	// Rows that the source has moved since may conflict. The table is then copied again.
	if err := c.resume(ctx, tb); err != nil && !errors.Is(err, database.ErrExists) {
		return err
	}
	same, err := c.same(ctx, tb)
	if err != nil || same {
		return err
	}
	// The same is true of rows that migrations insert.
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

// resume copies the rows after the last one that the target has.
func (c *copier) resume(ctx context.Context, tb *table) error {
	have, err := c.to.countRows(ctx, tb)
	if err != nil {
		return err
	}
	c.progress(have)
	var last []any
	err = c.to.read(ctx, func(t storeTx) error {
		key := newRow(len(tb.key))
		found, err := t.Row(tb.selectLastKey(), nil, key.places()...)
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

// copy copies the rows after a key, or all of them.
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
	return c.to.writeLocked(ctx, func(t storeTx) error {
		for left := rows; len(left) > 0; {
			n := engine.RowsPerStatement
			if len(left) < n {
				n = 1 // so that there are two statements for each table
			}
			var in engine.Args
			for _, row := range left[:n] {
				in = append(in, row...)
			}
			if _, err := t.Exec(tb.insert(n), in...); err != nil {
				return err
			}
			left = left[n:]
		}
		return nil
	})
}

// clear deletes the target's rows, a page in each transaction.
func (c *copier) clear(ctx context.Context, tb *table) error {
	for more := true; more; {
		err := c.to.writeLocked(ctx, func(t storeTx) (err error) {
			var one int64
			if more, err = t.Row(tb.rows("1")+" LIMIT 1", nil, (*engine.Integer)(&one)); more && err == nil {
				err = t.Change(tb.remove(c.page))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// scan calls fn with the rows after a key, or all of them, a page at a time.
func (c *copier) scan(ctx context.Context, s *Store, tb *table, after []any, fn func(rows [][]any) error) error {
	for {
		var page [][]any
		err := s.read(ctx, func(t storeTx) error {
			page = nil
			row := newRow(len(tb.columns()))
			return t.Each(tb.selectPage(after == nil), append(append(engine.Args{}, after...), int64(c.page)), row.places(), func() error {
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

// same reads a table of both stores and reports whether it has the same rows.
func (c *copier) same(ctx context.Context, tb *table) (bool, error) {
	var sums [2]tableSum
	var errs [2]error
	var both sync.WaitGroup
	for i, s := range []*Store{c.from, c.to} {
		both.Go(func() { sums[i], errs[i] = c.sum(ctx, s, tb) })
	}
	both.Wait()
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

// tableSum is a set's checksum, independent of its rows' order: their number and their hashes' sum
// in four words.
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

// appendRow appends a row's encoding. Different rows have different encodings.
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

// columns is the destination for a row with columns of any type.
type columns []column

// column holds an int64, a []byte, or nil for NULL.
type column struct{ value any }

// Scan implements sql.Scanner. It copies bytes.
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

func (r columns) places() engine.Args {
	places := make(engine.Args, len(r))
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
