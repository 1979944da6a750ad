package nodes

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite"

	"sluice/database"
	"sluice/e2e"
	"sluice/test/testenv"
)

// older makes a database one of the time before the first release.
var older = fmt.Sprintf(`UPDATE schema_version SET version = %d + version - (SELECT MAX(version) FROM schema_version)`, database.DevelopmentSchema)

// olderFolder returns a stopped data folder with an older schema.
func olderFolder(t *testing.T) string {
	t.Helper()
	data := t.TempDir()
	s := e2e.Start(t, e2e.Options{Data: data})
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "name"), e2e.Content(1, 40_000))
	s.Stop()
	e2e.Execute(t, data, older)
	return data
}

// filesOf returns the names and the digests of all files in a folder.
func filesOf(t *testing.T, data string) string {
	t.Helper()
	var list strings.Builder
	err := filepath.WalkDir(data, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
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

// refusesOlder checks that a command refuses metadata from an older version, and names the commit
// that opens it.
func refusesOlder(t *testing.T, command []string) {
	t.Helper()
	refuses(t, command, "database is older than this program", "897e77e3")
}

// refuses checks that a command fails with an error that has these texts.
func refuses(t *testing.T, command []string, texts ...string) {
	t.Helper()
	r := e2e.SluiceRuns(t, command...)
	if r.Code != 1 || slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(r.Stderr, text) }) {
		t.Errorf("sluice %s: exit code %d, %s%s", strings.Join(command, " "), r.Code, r.Stdout, r.Stderr)
	}
}

// TestCommandsLeaveOlderFolders runs the server and every command that opens metadata on a stopped
// folder from an older version, and from a newer one: each refuses it and changes no byte in it.
// Invariant 109.
func TestCommandsLeaveOlderFolders(t *testing.T) {
	t.Parallel()
	data := olderFolder(t)
	commands := append(commandsOnMetadata("--data", data),
		[]string{"backup", filepath.Join(t.TempDir(), "place"), "--data", data},
		[]string{"serve", "--addr", "127.0.0.1:0", "--data", data},
	)
	leaves := func(texts ...string) {
		before := filesOf(t, data)
		for _, command := range commands {
			refuses(t, command, texts...)
			if after := filesOf(t, data); after != before {
				t.Fatalf("sluice %s has changed the folder:\n%s\n%s", strings.Join(command, " "), before, after)
			}
		}
	}
	leaves("database is older than this program", "897e77e3")
	e2e.Execute(t, data, `UPDATE schema_version SET version = version + 1000`)
	leaves("database is newer than this program")
}

// TestJournalOfAnEarlierVersion runs the server and every command that opens bytes on a folder in
// which an earlier version was killed: each names the journal and the commit that reads it, and
// changes no byte in the folder.
// Invariant 115.
func TestJournalOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := e2e.Start(t, e2e.Options{Data: data})
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "name"), e2e.Content(1, 40_000))
	s.Stop()
	journal := filepath.Join(data, "bytes", ".journal-X")
	testenv.OK(t, os.WriteFile(journal, []byte("objects"), 0o600))
	before := filesOf(t, data)
	for _, command := range [][]string{
		{"serve", "--addr", "127.0.0.1:0", "--data", data},
		{"serve", "--addr", "127.0.0.1:0", "--ephemeral", "--heal-from", filepath.Join(data, "bytes")},
		{"check", "--data", data}, {"check", "--repair", "--data", data},
		{"backup", filepath.Join(t.TempDir(), "place"), "--data", data},
		{"recover", "--data", data},
	} {
		r := e2e.SluiceRuns(t, command...)
		if r.Code != 1 || !strings.Contains(r.Stderr, journal+" has objects") || !strings.Contains(r.Stderr, "commit 650c3281") {
			t.Errorf("sluice %s: exit code %d, %s%s", strings.Join(command, " "), r.Code, r.Stdout, r.Stderr)
		}
		if after := filesOf(t, data); after != before {
			t.Fatalf("sluice %s has changed the folder:\n%s\n%s", strings.Join(command, " "), before, after)
		}
	}
}

// TestRestoreLeavesAnOlderTarget checks that restore refuses a target with an older version's
// metadata and does not migrate it.
// Invariant 109.
func TestRestoreLeavesAnOlderTarget(t *testing.T) {
	t.Parallel()
	data, current := olderFolder(t), filepath.Join(t.TempDir(), "current")
	e2e.Start(t, e2e.Options{Data: current}).Stop()
	testenv.OK(t, os.RemoveAll(filepath.Join(data, "bytes"))) // it is no instance without them
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
	cluster := e2e.NewCluster(t, e2e.Options{})
	cluster.Start(1)
	cluster.Nodes[0].Stop()
	dsn := cluster.Database.DSN()
	c := testenv.Must(pgx.Connect(t.Context(), dsn))(t)
	t.Cleanup(func() { testenv.Check(t, c.Close(context.Background())) })
	testenv.Must(c.Exec(t.Context(), older))(t)
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
