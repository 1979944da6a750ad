package nodes

import (
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite"

	"sluice/e2e"
	"sluice/internal/testenv"
)

// olderVersion is a schema version that commands must not migrate.
const olderVersion = 11

// olderMigrations returns the statements that make the schema of a version on an engine.
func olderMigrations(t *testing.T, engine string, version int) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("..", "..", "database", "sqlstore", "internal", "engine", "migrations", engine, "*.sql"))
	if err != nil || len(names) < version {
		t.Fatalf("there are %d migrations, %v", len(names), err)
	}
	all := "CREATE TABLE schema_version (version BIGINT NOT NULL PRIMARY KEY);\n"
	for i, name := range names[:version] { // Glob sorts them
		script, err := os.ReadFile(name)
		testenv.OK(t, err)
		all += fmt.Sprintf("%s\nINSERT INTO schema_version VALUES (%d);\n", script, i+1)
	}
	return all
}

// olderFolder returns a stopped data folder of olderVersion.
func olderFolder(t *testing.T) string {
	t.Helper()
	data := t.TempDir()
	db, err := sql.Open("sqlite", filepath.Join(data, "meta.db"))
	testenv.OK(t, err)
	_, err = db.ExecContext(t.Context(), "PRAGMA journal_mode=WAL;"+olderMigrations(t, "sqlite", olderVersion))
	testenv.OK(t, errors.Join(err, db.Close(), os.Mkdir(filepath.Join(data, "bytes"), 0o700), os.WriteFile(filepath.Join(data, "lock"), nil, 0o600)))
	return data
}

// filesOf returns the names and the digests of all files in a folder.
func filesOf(t *testing.T, data string) string {
	t.Helper()
	var list strings.Builder
	err := filepath.WalkDir(data, func(name string, entry fs.DirEntry, err error) error {
		// The bytes' lock is an empty file; a command creates it where only a version before the
		// lock has run.
		if err != nil || entry.IsDir() || entry.Name() == "sluice.lock" {
			return err
		}
		content, err := os.ReadFile(name)
		fmt.Fprintf(&list, "%s %x\n", name, sha256.Sum256(content))
		return err
	})
	testenv.OK(t, err)
	return list.String()
}

// commandsOnMetadata are the commands that open an instance's metadata at a location without
// serving it. They must neither migrate nor otherwise change metadata from an older version.
func commandsOnMetadata(location ...string) [][]string {
	var list [][]string
	for _, one := range [][]string{
		{"key", "list"}, {"key", "show", "id"}, {"key", "update", "id", "--label", "x"}, {"key", "revoke", "id"},
		{"key", "create", "--scopes", "read", "--all-accounts"}, {"group", "show", "g"}, {"group", "set", "g", "--stored-bytes", "1G"},
		{"check", "--books"},
	} {
		list = append(list, append(one, location...))
	}
	return list
}

// refusesOlder checks that a command refuses metadata from an older version.
func refusesOlder(t *testing.T, command []string) {
	t.Helper()
	r := e2e.SluiceRuns(t, command...)
	if r.Code != 1 || !strings.Contains(r.Stderr, "database is older than this program") {
		t.Errorf("sluice %s: exit code %d, %s%s", strings.Join(command, " "), r.Code, r.Stdout, r.Stderr)
	}
}

// TestCommandsLeaveOlderFolders runs every command that opens metadata on a stopped folder from an
// older version: each refuses it and changes no byte in it. A server migrates it when it starts,
// and logs that.
// Invariant 109.
func TestCommandsLeaveOlderFolders(t *testing.T) {
	t.Parallel()
	data := olderFolder(t)
	before := filesOf(t, data)
	for _, command := range append(commandsOnMetadata("--data", data),
		[]string{"backup", filepath.Join(t.TempDir(), "place"), "--data", data},
	) {
		refusesOlder(t, command)
		if after := filesOf(t, data); after != before {
			t.Fatalf("sluice %s has changed the folder:\n%s\n%s", strings.Join(command, " "), before, after)
		}
	}
	s := e2e.Start(t, e2e.Options{Data: data})
	s.Logged(fmt.Sprintf("from_schema=%d", olderVersion))
	s.Stop()
	if r := e2e.SluiceRuns(t, "key", "list", "--data", data); r.Code != 0 {
		t.Errorf("key list after a server's start: exit code %d, %s", r.Code, r.Stderr)
	}
}

// TestRestoreLeavesAnOlderTarget checks that restore refuses a target with an older version's
// metadata and does not migrate it.
// Invariant 109.
func TestRestoreLeavesAnOlderTarget(t *testing.T) {
	t.Parallel()
	data, current := olderFolder(t), filepath.Join(t.TempDir(), "current")
	e2e.Start(t, e2e.Options{Data: current}).Stop()
	database := filesOf(t, filepath.Join(data, "meta.db"))
	place := filepath.Join(t.TempDir(), "place")
	e2e.Prints(t, "backup", place, "--data", current)
	refusesOlder(t, []string{"restore", place, "--to", data})
	if after := filesOf(t, filepath.Join(data, "meta.db")); after != database {
		t.Error("the restore has changed the metadata of its target")
	}
}

// TestCommandsLeaveOlderPostgres is TestCommandsLeaveOlderFolders on PostgreSQL.
// Invariant 109.
func TestCommandsLeaveOlderPostgres(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	c, err := pgx.Connect(t.Context(), dsn)
	testenv.OK(t, err)
	t.Cleanup(func() {
		if err := c.Close(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	if _, err := c.PgConn().Exec(t.Context(), olderMigrations(t, "postgres", olderVersion)).ReadAll(); err != nil {
		t.Fatal(err)
	}
	describe := func() string {
		t.Helper()
		var text string
		err := c.QueryRow(t.Context(), `SELECT string_agg(line, E'\n' ORDER BY line) FROM (
			SELECT format('%s.%s %s', table_name, column_name, data_type) AS line FROM information_schema.columns WHERE table_schema = current_schema()
			UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema()
			UNION ALL SELECT format('version %s', version) FROM schema_version) AS lines`).Scan(&text)
		testenv.OK(t, err)
		return text
	}
	before := describe()
	data := t.TempDir()
	testenv.OK(t, os.MkdirAll(filepath.Join(data, "bytes"), 0o700))
	for _, command := range append(commandsOnMetadata("--data", data, "--meta", dsn),
		[]string{"backup", filepath.Join(t.TempDir(), "place"), "--data", data, "--meta", dsn},
	) {
		refusesOlder(t, command)
		if after := describe(); after != before {
			t.Fatalf("sluice %s has changed the schema:\n%s", strings.Join(command, " "), after)
		}
	}
}

// TestFirstKeyCreatesTheSchema checks that key create still creates the instance where there is
// none, on PostgreSQL too.
// Invariant 109.
func TestFirstKeyCreatesTheSchema(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	for _, location := range [][]string{{"--data", filepath.Join(t.TempDir(), "data")}, {"--data", t.TempDir(), "--meta", dsn}} {
		if r := e2e.SluiceRuns(t, append([]string{"key", "list"}, location...)...); r.Code == 0 {
			t.Errorf("key list where there is no instance: %s", r.Stdout)
		}
		if r := e2e.SluiceRuns(t, append([]string{"key", "create", "--scopes", "read", "--all-accounts"}, location...)...); r.Code != 0 {
			t.Errorf("key create: exit code %d, %s", r.Code, r.Stderr)
		}
		if r := e2e.SluiceRuns(t, append([]string{"key", "list"}, location...)...); r.Code != 0 || !strings.Contains(r.Stdout, "active") {
			t.Errorf("key list: exit code %d, %s%s", r.Code, r.Stdout, r.Stderr)
		}
	}
}
