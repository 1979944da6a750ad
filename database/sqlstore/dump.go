package sqlstore

import (
	"context"
	"fmt"
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

// The tables that a dump has in addition to those that belong to an instance. They list what the
// extents of contents that are no garbage refer to.
const (
	ObjectsTable = "objects" // object, size, blocks; ordered by name
	InlineTable  = "inline"  // content, part, off, size, blocks; for each inline extent
)

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

// Dump reads what belongs to an instance, except the bodies of inline extents, in one snapshot of
// the database. While it runs, SQLite's log cannot be restarted and PostgreSQL's vacuum removes
// nothing newer, so to's functions should be quick.
func (s *Store) Dump(ctx context.Context, to Dump) error {
	return s.snapshot(ctx, func(t storeTx) error {
		properties, err := t.properties()
		if err != nil {
			return err
		}
		if err := to.Begin(t.Now, properties); err != nil {
			return err
		}
		for i := range copied {
			if copied[i].name == bodiesTable {
				continue
			}
			if err := t.dump(ctx, &copied[i], "", to); err != nil {
				return fmt.Errorf("table %s: %w", copied[i].name, err)
			}
		}
		if err := t.dump(ctx, &objectRows, `object IS NOT NULL AND NOT `+isGarbage, to); err != nil {
			return err
		}
		return t.dump(ctx, &inlineRows, `object IS NULL AND NOT `+isGarbage, to)
	})
}

// What is read from extents for the tables that only a dump has.
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
		err := t.Each(tb.selectSome(after == nil, condition), append(append(engine.Args{}, after...), int64(copyPage)), row.places(), func() error {
			page = append(page, row.values())
			return nil
		})
		if err != nil || len(page) == 0 {
			return err
		}
		if err := to.Rows(page); err != nil || len(page) < copyPage {
			return err
		}
		after = page[len(page)-1][:len(tb.key)]
	}
}

// Body is the body of an inline extent.
type Body struct {
	Key  []any // content, part, off
	Body []byte
}

// Bodies returns up to limit bodies of inline extents, in the order of their keys: those from this
// key on. A value that is not bytes is nil.
func (s *Store) Bodies(ctx context.Context, from []any, limit int) (list []Body, err error) {
	err = s.read(ctx, func(t storeTx) error {
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

// NeedsObject reports whether a content that is no garbage has an extent with this object.
func (s *Store) NeedsObject(ctx context.Context, object string) (needed bool, err error) {
	err = s.read(ctx, func(t storeTx) (err error) {
		var one engine.Integer
		needed, err = t.Row(`SELECT 1 FROM extents WHERE object = $1 AND NOT `+isGarbage, engine.Args{[]byte(object)}, &one)
		return err
	})
	return needed, err
}

// NeedsBody reports whether a content that is no garbage has this inline extent, a row of
// InlineTable. A part that was sent again has another one with the same key.
func (s *Store) NeedsBody(ctx context.Context, inline []any) (needed bool, err error) {
	err = s.read(ctx, func(t storeTx) (err error) {
		var one engine.Integer
		needed, err = t.Row(`SELECT 1 FROM extents WHERE content = $1 AND part = $2 AND off = $3 AND size = $4 AND blocks = $5
			AND object IS NULL AND NOT `+isGarbage, inline, &one)
		return err
	})
	return needed, err
}

// Load inserts rows of a dump. The tables must be loaded in the dump's order, and nothing else
// may use the store meanwhile. FinishLoad must be called after the last.
func (s *Store) Load(ctx context.Context, t Table, rows [][]any) error {
	tb, err := loadedTable(t)
	if err != nil {
		return err
	}
	c := copier{to: s}
	return c.insert(ctx, tb, rows)
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
// that this version does not know, and lack others: whether they exist is for the database to say.
func loadedTable(t Table) (*table, error) {
	for _, name := range append([]string{t.Name}, t.Columns...) {
		if !identifier.MatchString(name) || slices.Contains(notCopied, t.Name) {
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
	c := copier{to: s, page: copyPage}
	for _, t := range append(slices.Clone(tables), bodiesColumns) {
		tb, err := loadedTable(t)
		if err != nil {
			return err
		}
		if err := c.clear(ctx, tb); err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	return nil
}

// FinishLoad adds up the counts of accounts, which triggers have counted.
func (s *Store) FinishLoad(ctx context.Context) error { return s.foldAll(ctx, meta.AccountCounts) }
