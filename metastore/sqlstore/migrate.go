package sqlstore

import (
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"sluice/metastore"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migration is one numbered step from a version of the schema to the next.
type migration struct {
	version int64
	text    string
}

// migrations lists the steps in order. They are numbered from 1 without a gap.
func migrations() ([]migration, error) {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	var list []migration
	for i, name := range names { // Glob sorts them
		number, _, _ := strings.Cut(strings.TrimPrefix(name, "migrations/"), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil || version != int64(i)+1 {
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
	// script runs the statements of a migration.
	script(text string) error
}

// migrate brings the schema to this program's version. It must run inside a
// transaction that excludes every other migration. A database that was written
// by a newer program is metastore.ErrNewer and left alone.
func migrate(c migrator) error {
	list, err := migrations()
	if err != nil {
		return err
	}
	return migrateTo(c, list)
}

func migrateTo(c migrator, list []migration) error {
	t := &tx{conn: c}
	if _, err := t.exec(`CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL PRIMARY KEY)`); err != nil {
		return err
	}
	var have int64
	if _, err := t.row(`SELECT COALESCE(MAX(version), 0) FROM schema_version`, nil, (*integer)(&have)); err != nil {
		return err
	}
	if have > int64(len(list)) {
		return fmt.Errorf("schema version %d, known up to %d: %w", have, len(list), metastore.ErrNewer)
	}
	for _, m := range list[have:] {
		if err := c.script(m.text); err != nil {
			return fmt.Errorf("migration %d: %w", m.version, err)
		}
		if _, err := t.exec(`INSERT INTO schema_version (version) VALUES ($1)`, m.version); err != nil {
			return fmt.Errorf("migration %d: %w", m.version, err)
		}
	}
	return nil
}

// checkVersion refuses a schema that is not this program's, and changes nothing.
// tables is the query that counts the tables called schema_version.
func checkVersion(c runner, tables string) error {
	list, err := migrations()
	if err != nil {
		return err
	}
	t := &tx{conn: c}
	var have, found integer
	if _, err := t.row(tables, nil, &found); err != nil {
		return err
	}
	if found > 0 {
		if _, err := t.row(`SELECT COALESCE(MAX(version), 0) FROM schema_version`, nil, &have); err != nil {
			return err
		}
	}
	switch {
	case int(have) < len(list):
		return fmt.Errorf("schema version %d, wanted %d: %w", have, len(list), metastore.ErrOlder)
	case int(have) > len(list):
		return fmt.Errorf("schema version %d, known up to %d: %w", have, len(list), metastore.ErrNewer)
	}
	return nil
}
