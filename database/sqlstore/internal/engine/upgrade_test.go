package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"sluice/database"
	"sluice/test/testenv"
)

// dialect is how a test reads and fills the tables of an engine.
type dialect struct {
	migrations string
	tables     string // counts those that checkVersion looks for
	columns    string // a query of the lines "TABLE COLUMN TYPE", in order
	bytes      string // a literal
	line       string // the format of a query of rows as lines
	text       string // the format of a column in it
	schema     func(t *testing.T, c runner) []string
	open       func(t *testing.T) migrator // an empty database
}

var dialects = map[string]dialect{
	"SQLite": {
		migrations: sqliteMigrations, tables: sqliteVersionTables,
		columns: `SELECT CAST(m.name || ' ' || c.name || ' ' || c.type AS BLOB) FROM sqlite_master m JOIN pragma_table_info(m.name) c
			WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite%' ORDER BY m.name, c.cid`,
		bytes: `x'31323334353637383930313233343536'`, line: `SELECT CAST(%s AS BLOB) FROM %s`, text: `quote(%s)`,
		schema: sqliteSchema,
		open: func(t *testing.T) migrator {
			c := testenv.Must(openSQLiteConn(databasePath(t), 0, nil))(t)
			testenv.AtEnd(t, c.close)
			return c
		},
	},
	"PostgreSQL": {
		migrations: postgresMigrations, tables: postgresVersionTables,
		columns: `SELECT convert_to(table_name || ' ' || column_name || ' ' || data_type, 'UTF8') FROM information_schema.columns
			WHERE table_schema = current_schema() AND is_identity = 'NO' ORDER BY table_name, ordinal_position`,
		bytes: `'1234567890123456'::bytea`, line: `SELECT convert_to(%s, 'UTF8') FROM %s`, text: `COALESCE(%s::text, '-')`,
		schema: postgresSchema,
		open:   func(t *testing.T) migrator { return connectPostgres(t, testenv.Postgres(t)) },
	},
}

// columnsOf returns the names of the columns of each table, without schema_version, and values that
// a row may have.
func (d dialect) columnsOf(t *testing.T, c migrator) (names, values map[string][]string) {
	t.Helper()
	names, values = map[string][]string{}, map[string][]string{}
	for _, line := range describe(t, c, d.columns) {
		words := strings.Fields(line)
		table, value := words[0], "1"
		if strings.EqualFold(words[2], "BLOB") || strings.EqualFold(words[2], "BYTEA") {
			value = d.bytes
		}
		if table != "schema_version" {
			names[table], values[table] = append(names[table], words[1]), append(values[table], value)
		}
	}
	return names, values
}

// fill inserts a row into each table, unless there is one with its key. Triggers of session_terms
// insert into session_counts, so it goes backwards.
func (d dialect) fill(t *testing.T, c migrator) {
	t.Helper()
	names, values := d.columnsOf(t, c)
	for _, table := range slices.Backward(slices.Sorted(maps.Keys(names))) {
		testenv.OK(t, c.script(fmt.Sprintf(`INSERT INTO %s (%s) VALUES (%s) ON CONFLICT DO NOTHING`, table, strings.Join(names[table], ", "), strings.Join(values[table], ", "))))
		if rows := describe(t, c, fmt.Sprintf(d.line, "'row'", table)); len(rows) == 0 {
			t.Errorf("%s has no row", table)
		}
	}
}

// content returns the schema and the rows of all tables as lines.
func (d dialect) content(t *testing.T, c migrator) []string {
	t.Helper()
	names, _ := d.columnsOf(t, c)
	lines := d.schema(t, c)
	for table, columns := range names {
		for i, column := range columns {
			columns[i] = fmt.Sprintf(d.text, column)
		}
		lines = append(lines, describe(t, c, fmt.Sprintf(d.line, "'"+table+": ' || "+strings.Join(columns, " || ' ' || "), table))...)
	}
	slices.Sort(lines)
	return lines
}

// TestUpgrades brings a database with the first schema, and a row in each table, to the newest one:
// in one step, and release by release. Both have the same tables and rows then. Each earlier
// release refuses the database from then on, as the newest one refuses a schema before the first.
// Made-up migrations stand for future ones.
// Invariant 109.
func TestUpgrades(t *testing.T) {
	for name, d := range dialects {
		for kind, list := range map[string][]migration{"own": listMigrations(t, d.migrations), "made up": madeUp} {
			t.Run(name+" "+kind, func(t *testing.T) {
				atOnce, byEach := d.open(t), d.open(t)
				for _, c := range []migrator{atOnce, byEach} {
					testenv.OK(t, migrate(c, list[:1]))
					d.fill(t, c)
				}
				testenv.OK(t, migrate(atOnce, list))
				for i := range list {
					testenv.OK(t, migrate(byEach, list[:i+1]))
					for older := range i {
						testenv.Is(t, migrate(byEach, list[:older+1]), database.ErrNewer, "release %d at schema %d", older, list[i].version)
						testenv.Is(t, testenv.Error(checkVersion(byEach, list[:older+1], Migrate, d.tables)), database.ErrNewer, "release %d at schema %d", older, list[i].version)
					}
				}
				testenv.Equal(t, strings.Join(d.content(t, byEach), "\n"), strings.Join(d.content(t, atOnce), "\n"), "the database after each release")
				testenv.OK(t, atOnce.script(fmt.Sprintf(`DELETE FROM schema_version; INSERT INTO schema_version VALUES (%d)`, list[0].version-1)))
				testenv.Is(t, migrate(atOnce, list), database.ErrOlder, "a schema before the first")
			})
		}
	}
}
