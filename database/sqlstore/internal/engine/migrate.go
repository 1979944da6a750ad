package engine

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"sluice/database"
)

// Each engine's migrations, in its own SQL. The first creates the schema with its number, which is
// database.OldestSchema. Both migrations with one number lead to the same schema. A released
// migration never changes.
const (
	sqliteMigrations   = "migrations/sqlite"
	postgresMigrations = "migrations/postgres"
)

//go:embed migrations
var migrationFiles embed.FS

// Schema returns this program's schema number.
func Schema() int {
	list, err := migrations(postgresMigrations)
	if err != nil {
		panic(err) // the embedded files are out of order, which every test shows
	}
	return int(newest(list))
}

// newest returns the schema's number to which migrations lead.
func newest(list []migration) int64 { return list[len(list)-1].version }

// SchemaChange says what opening a database may do to its schema.
type SchemaChange int

const (
	// Migrate creates the schema, or brings an older one up to date, from which there is no way
	// back. One before database.OldestSchema is refused with database.ErrOlder.
	Migrate SchemaChange = iota
	// Create creates the schema if there is none. An older one is refused with database.ErrOlder.
	Create
	// Keep changes nothing: another process may be using the database. One that does not exist is
	// refused with fs.ErrNotExist (SQLite), and a schema that does not exist or is older with
	// database.ErrOlder.
	Keep
)

// migration is a numbered step from one schema version to the next.
type migration struct {
	version int64
	text    string
}

// aloneMark begins a migration to a schema on which nodes of earlier versions would ignore
// something that they must obey. It changes the table nodes, so that they cannot join any more, and
// is refused while nodes run.
const aloneMark = "-- Alone:"

// migrations returns the migrations in a directory in order. They are numbered from
// database.OldestSchema without a gap.
func migrations(dir string) ([]migration, error) {
	names, err := fs.Glob(migrationFiles, dir+"/*.sql")
	if err != nil {
		return nil, err
	}
	var list []migration
	for i, name := range names { // Glob sorts them
		number, _, _ := strings.Cut(path.Base(name), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil || version != int64(database.OldestSchema+i) {
			return nil, fmt.Errorf("sqlstore: migration %s is out of order", name)
		}
		text, err := migrationFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		list = append(list, migration{version, string(text)})
	}
	return list, nil
}

// migrator is a connection that can change the schema.
type migrator interface {
	runner
	// script runs a migration's statements.
	script(text string) error
	// nodes returns how many nodes have joined and run beside this process.
	nodes() (int64, error)
}

// migrate applies the migrations that a database lacks. It must run inside a transaction that
// excludes every other migration, and must be rolled back after an error. It returns
// database.ErrNewer if a newer program version wrote the database, or database.ErrNodesRun if nodes
// run that must not.
func migrate(c migrator, list []migration) error {
	t := &Tx{conn: c}
	if _, err := t.Exec(`CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL PRIMARY KEY)`); err != nil {
		return err
	}
	have, err := t.schemaVersion()
	if err != nil {
		return err
	}
	if v := (versions{have, newest(list)}); v.from > v.to || v.from != 0 && v.from < list[0].version {
		return v.refused()
	}
	for _, m := range list {
		if m.version <= have {
			continue
		}
		if err := c.script(m.text); err != nil {
			return fmt.Errorf("migration %d: %w", m.version, err)
		}
		if have > 0 && strings.HasPrefix(m.text, aloneMark) {
			if n, err := c.nodes(); err != nil || n > 0 {
				return cmp.Or(err, fmt.Errorf("schema version %d, need %d: %d nodes run: %w", have, m.version, n, database.ErrNodesRun))
			}
		}
		if _, err := t.Exec(`INSERT INTO schema_version (version) VALUES ($1)`, m.version); err != nil {
			return fmt.Errorf("migration %d: %w", m.version, err)
		}
	}
	return nil
}

// versions are the schema's versions before and after opening.
type versions struct{ from, to int64 }

func (v versions) migrated() (from, to int64) { return v.from, v.to }

// refused returns the error for a schema with another version.
func (v versions) refused() error {
	switch {
	case v.from > v.to:
		return fmt.Errorf("schema version %d, known up to %d: %w", v.from, v.to, database.ErrNewer)
	case v.from != 0 && v.from < database.OldestSchema:
		return fmt.Errorf("schema version %d: %w: %s", v.from, database.ErrOlder, database.CarryOver)
	}
	return fmt.Errorf("schema version %d, need %d: %w", v.from, v.to, database.ErrOlder)
}

// checkVersion returns the schema's version, and the version that these migrations make. It returns
// database.ErrOlder or database.ErrNewer if they differ and change does not allow a migration. It
// changes nothing. tables is a query that counts the tables with the name schema_version.
func checkVersion(c runner, list []migration, change SchemaChange, tables string) (versions, error) {
	t := &Tx{conn: c}
	v := versions{to: newest(list)}
	var found Integer
	_, err := t.Row(tables, nil, &found)
	if err == nil && found > 0 {
		v.from, err = t.schemaVersion()
	}
	if err != nil {
		return versions{}, err
	}
	creates := v.from == 0 && change != Keep
	migrates := v.from >= list[0].version && v.from < v.to && change == Migrate
	if v.from == v.to || creates || migrates {
		return v, nil
	}
	return v, v.refused()
}

// schemaVersion returns the last applied migration's number.
func (t *Tx) schemaVersion() (int64, error) {
	var version int64
	_, err := t.Row(`SELECT COALESCE(MAX(version), 0) FROM schema_version`, nil, (*Integer)(&version))
	return version, err
}
