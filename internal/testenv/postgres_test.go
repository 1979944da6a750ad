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
