package sqlstore

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/meta"
)

// Table describes rows in a dump. The first Key columns identify a row and order the rows. A
// column's value is an int64, a []byte, or nil for NULL.
type Table struct {
	Name    string   `json:"name"`
	Columns []string `json:"columns"`
	Key     int      `json:"key"`
}

// The tables that a dump has in addition to those that belong to an instance. They list the objects
// and inline bodies that contents have which are no garbage.
const (
	ObjectsTable = "objects" // object, size, blocks; ordered by name
	InlineTable  = "inline"  // content, part, off, size, blocks; for each inline extent
)

// dumpPage is the number of rows that are read at a time, or deleted in one transaction.
const dumpPage = 1000

// Dump receives a snapshot. An error of its functions ends the dump.
type Dump struct {
	// Begin is called with the snapshot's time and with all properties. If the engine begins the
	// snapshot again, Begin is called again, and everything before is void.
	Begin func(at time.Time, properties map[string]string) error
	// Table is called when a table begins, and Rows with pages of its rows.
	Table func(Table) error
	Rows  func(rows [][]any) error
}

// bodiesTable is the table that Dump leaves out: its rows are large, immutable and read by Bodies.
const bodiesTable = "bodies"

// Dump reads all rows that belong to an instance, except the bodies of inline extents, in one
// snapshot of the database. While it runs, SQLite's log cannot be restarted and PostgreSQL's vacuum
// removes nothing newer, so to's functions should be quick.
func (s *Store) Dump(ctx context.Context, to Dump) error {
	return s.in.Snapshot(ctx, func(t storeTx) error {
		properties, err := t.properties()
		if err != nil {
			return err
		}
		if err := to.Begin(t.Now, properties); err != nil {
			return err
		}
		for i := range dumped {
			if dumped[i].name == bodiesTable {
				continue
			}
			if err := t.dump(ctx, &dumped[i], "", to); err != nil {
				return fmt.Errorf("table %s: %w", dumped[i].name, err)
			}
		}
		if err := t.dump(ctx, &objectRows, `object IS NOT NULL AND NOT `+isGarbage, to); err != nil {
			return err
		}
		return t.dump(ctx, &inlineRows, `object IS NULL AND NOT `+isGarbage, to)
	})
}

// The rows of extents that are read for the tables that only a dump has.
var (
	objectRows = table{name: "extents", as: ObjectsTable, key: []string{"object"}, rest: []string{"size", "blocks"}}
	inlineRows = table{name: "extents", as: InlineTable, key: []string{"content", "part", "off"}, rest: []string{"size", "blocks"}}
)

// dump reads the rows of a table that meet a condition.
func (t storeTx) dump(ctx context.Context, tb *table, condition string, to Dump) error {
	if err := to.Table(Table{Name: tb.dumpName(), Columns: tb.columns(), Key: len(tb.key)}); err != nil {
		return err
	}
	var after []any
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		var page [][]any
		row := newRow(len(tb.columns()))
		err := t.Each(tb.selectPage(after == nil, condition), append(append(engine.Args{}, after...), int64(dumpPage)), row.places(), func() error {
			page = append(page, row.values())
			return nil
		})
		if err != nil || len(page) == 0 {
			return err
		}
		if err := to.Rows(page); err != nil || len(page) < dumpPage {
			return err
		}
		after = page[len(page)-1][:len(tb.key)]
	}
}

// CountRows returns how many rows Dump reads, and bodies there are.
func (s *Store) CountRows(ctx context.Context) (int64, error) {
	var sum int64
	for i := range dumped {
		n, err := s.countRows(ctx, &dumped[i])
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

func (s *Store) countRows(ctx context.Context, tb *table) (int64, error) {
	var n int64
	err := s.in.Snapshot(ctx, func(t storeTx) error {
		_, err := t.Row(tb.selectCount(), nil, (*engine.Integer)(&n))
		return err
	})
	return n, err
}

// Body is the body of an inline extent.
type Body struct {
	Key  []any // content, part, off
	Body []byte
}

// Bodies returns up to limit bodies of inline extents, in the order of their keys: those from this
// key on. A value that is not bytes is nil.
func (s *Store) Bodies(ctx context.Context, from []any, limit int) (list []Body, err error) {
	err = s.in.Read(ctx, func(t storeTx) error {
		list = nil
		key := newRow(3)
		var body []byte
		return t.Each(`SELECT content, part, off, body FROM bodies WHERE (content, part, off) >= ($1, $2, $3) ORDER BY content, part, off LIMIT ($4 + 0)`,
			append(append(engine.Args{}, from...), int64(limit)), append(key.places(), (*engine.Body)(&body)), func() error {
				list = append(list, Body{key.values(), body})
				return nil
			})
	})
	return list, err
}

// NeedsBody reports whether a content that is no garbage has this inline extent, a row of
// InlineTable. A part that was sent again has another extent with the same key.
func (s *Store) NeedsBody(ctx context.Context, inline []any) (needed bool, err error) {
	err = s.in.Read(ctx, func(t storeTx) (err error) {
		var one engine.Integer
		needed, err = t.Row(`SELECT 1 FROM extents WHERE content = $1 AND part = $2 AND off = $3 AND size = $4 AND blocks = $5
			AND object IS NULL AND NOT `+isGarbage, inline, &one)
		return err
	})
	return needed, err
}

// Load inserts rows of a dump. The tables must be loaded in the dump's order, and nothing else
// may use the store meanwhile.
func (s *Store) Load(ctx context.Context, t Table, rows [][]any) error {
	tb, err := loadedTable(t)
	if err != nil {
		return err
	}
	return s.insert(ctx, tb, rows)
}

func (s *Store) insert(ctx context.Context, tb *table, rows [][]any) error {
	return s.in.WriteLocked(ctx, func(t storeTx) error {
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
		if tb.name != "blobs" || t.Embedded() { // triggers count
			return nil
		}
		return addCounts(t.Tx, tb, rows)
	})
}

// addCounts adds rows of blobs, which were inserted, to the counts of their accounts.
func addCounts(t *engine.Tx, tb *table, rows [][]any) error {
	account, size := slices.Index(tb.columns(), "account"), slices.Index(tb.columns(), "size")
	counts := map[string][]int64{}
	for _, row := range rows {
		of, bytes := string(row[account].([]byte)), row[size].(int64)
		if counts[of] == nil {
			counts[of] = make([]int64, 2)
		}
		counts[of][0]++
		counts[of][1] += bytes
	}
	for _, of := range slices.Sorted(maps.Keys(counts)) {
		if err := meta.AccountCounts.Add(t, of, counts[of]); err != nil {
			return err
		}
	}
	return nil
}

// bodiesColumns describes the rows that LoadBodies inserts.
var bodiesColumns = Table{Name: bodiesTable, Columns: []string{"content", "part", "off", "body"}, Key: 3}

// LoadBodies inserts the bodies of inline extents.
func (s *Store) LoadBodies(ctx context.Context, list []Body) error {
	rows := make([][]any, len(list))
	for i, b := range list {
		rows[i] = append(slices.Clone(b.Key), b.Body)
	}
	return s.Load(ctx, bodiesColumns, rows)
}

// identifier is the form of all names of tables and columns.
var identifier = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// loadedTable returns the table for rows of a dump. An older schema may have tables and columns
// that this version does not know, and lack some: the database decides whether they exist.
func loadedTable(t Table) (*table, error) {
	for _, name := range append([]string{t.Name}, t.Columns...) {
		if !identifier.MatchString(name) || slices.Contains(notDumped, t.Name) {
			return nil, fmt.Errorf("sqlstore: a dump cannot have the table %q with a column %q", t.Name, name)
		}
	}
	if t.Key < 1 || t.Key > len(t.Columns) {
		return nil, fmt.Errorf("sqlstore: the table %s has a key of %d columns", t.Name, t.Key)
	}
	return &table{name: t.Name, key: t.Columns[:t.Key], rest: t.Columns[t.Key:]}, nil
}

// Unload deletes all rows that Load and LoadBodies have inserted into these tables.
func (s *Store) Unload(ctx context.Context, tables []Table) error {
	for _, t := range append(slices.Clone(tables), bodiesColumns) {
		tb, err := loadedTable(t)
		if err != nil {
			return err
		}
		if err := s.clear(ctx, tb); err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	return nil
}

// clear deletes all rows of a table, a page in each transaction.
func (s *Store) clear(ctx context.Context, tb *table) error {
	for more := true; more; {
		err := s.in.WriteLocked(ctx, func(t storeTx) (err error) {
			var one int64
			if more, err = t.Row(tb.rows("1")+" LIMIT 1", nil, (*engine.Integer)(&one)); more && err == nil {
				err = t.Change(tb.remove(dumpPage))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
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
