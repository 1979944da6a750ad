package testenv

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
)

// query returns a query's only value.
func query(t *testing.T, dsn, statement string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	var value string
	if err := errors.Join(conn.QueryRow(t.Context(), statement).Scan(&value), conn.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
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
		if err := execute(server, "CREATE TABLE kept (n BIGINT)"); err != nil {
			t.Fatal(err)
		}
		if err := server.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := execute(server, "SELECT 1"); err == nil {
			t.Error("a stopped server executed a statement")
		}
		if err := server.Start("synchronous_commit=off"); err != nil {
			t.Fatal(err)
		}
		if got := query(t, server.DSN(), "SHOW synchronous_commit"); got != "off" {
			t.Errorf("synchronous_commit is %s after a start with off", got)
		}
		if got := query(t, server.DSN(), "SELECT COUNT(*)::text FROM kept"); got != "0" {
			t.Errorf("%s rows in a table without any", got)
		}
	})
	if _, err := os.Stat(server.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the server's folder still exists: %v", err)
	}
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
