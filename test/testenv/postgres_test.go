package testenv

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
)

// query returns a query's only value.
func query(t *testing.T, dsn, statement string) string {
	t.Helper()
	conn := Must(pgx.Connect(t.Context(), dsn))(t)
	var value string
	OK(t, errors.Join(conn.QueryRow(t.Context(), statement).Scan(&value), conn.Close(t.Context())))
	return value
}

func TestPostgresServer(t *testing.T) {
	Require(t, PostgreSQL)
	var server *PostgresServer
	t.Run("life", func(t *testing.T) {
		server = StartPostgres(t)
		if got := query(t, server.DSN(), "SHOW fsync"); got != "on" {
			t.Errorf("fsync is %s", got)
		}
		OK(t, execute(server, "CREATE TABLE kept (n BIGINT)"))
		OK(t, server.Stop())
		if err := execute(server, "SELECT 1"); err == nil {
			t.Error("a stopped server executed a statement")
		}
		OK(t, server.Start("synchronous_commit=off"))
		if got := query(t, server.DSN(), "SHOW synchronous_commit"); got != "off" {
			t.Errorf("synchronous_commit is %s after a start with off", got)
		}
		if got := query(t, server.DSN(), "SELECT COUNT(*)::text FROM kept"); got != "0" {
			t.Errorf("%s rows in a table without any", got)
		}
	})
	Is(t, Error(os.Stat(server.dir)), fs.ErrNotExist, "the server's folder still exists")
}

func TestPostgresSchemasAreIndependent(t *testing.T) {
	outer := Postgres(t)
	var inner string
	t.Run("inner", func(t *testing.T) {
		inner = Postgres(t)
		if a, b := query(t, outer, "SELECT current_schema()::text"), query(t, inner, "SELECT current_schema()::text"); a == b {
			t.Errorf("two tests share schema %s", a)
		}
	})
	if got := query(t, inner, "SELECT COALESCE(current_schema()::text, 'none')"); got != "none" {
		t.Errorf("the schema of an ended test still exists: %s", got)
	}
}

// TestClusters: servers begin with copies of one empty cluster, or with a cluster of their own.
func TestClusters(t *testing.T) {
	one := StartPostgres(t)
	OK(t, one.Exec("CREATE TABLE kept (n BIGINT)"))
	same, other := StartPostgres(t), StartOtherCluster(t)
	identifier := func(s *PostgresServer) string {
		return query(t, s.DSN(), "SELECT system_identifier::text FROM pg_control_system()")
	}
	Equal(t, identifier(same), identifier(one), "the identifier of a copy")
	if identifier(other) == identifier(one) {
		t.Error("another cluster has the same identifier")
	}
	for _, s := range []*PostgresServer{same, other} {
		Equal(t, query(t, s.DSN(), "SELECT COUNT(*)::text FROM pg_tables WHERE tablename = 'kept'"), "0", "tables that another server stored")
	}
}

// TestKeptCluster: an archive in the cache belongs to the program's version, and is replaced as a
// whole.
func TestKeptCluster(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	program, data, to := filepath.Join(t.TempDir(), "initdb"), t.TempDir(), filepath.Join(t.TempDir(), "to")
	write := func(path, text string) { OK(t, os.WriteFile(path, []byte(text), 0o600)) }
	owned := 0
	created := func(string) error { owned++; return nil }
	write(program, "one")
	kept := Must(keptCluster(program, initdb))(t)
	Is(t, extractCluster(to, kept, created), fs.ErrNotExist, "there is no archive yet")
	OK(t, os.Mkdir(filepath.Join(data, "base"), 0o700))
	for _, text := range []string{"first", "second"} {
		write(filepath.Join(data, "base", "1"), text)
		OK(t, keepCluster(kept, data))
	}
	OK(t, extractCluster(to, kept, created))
	Equal(t, string(Must(os.ReadFile(filepath.Join(to, "base", "1")))(t)), "second", "the kept file")
	Equal(t, owned, 3, "files and folders that were created")
	Equal(t, len(Must(os.ReadDir(filepath.Dir(kept)))(t)), 1, "files in the cache")
	write(program, "another")
	if Must(keptCluster(program, initdb))(t) == kept {
		t.Error("another program has the same archive")
	}
}
