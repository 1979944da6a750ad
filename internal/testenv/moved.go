package testenv

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// MovedPostgres returns the DSN of an empty schema, as Postgres does, in which the
// clock of the server is ahead of that of this machine, and a function that sets by
// how much. Every statement that asks for clock_timestamp() without naming a schema
// goes by it. It is how a test has a node whose clock is wrong.
func MovedPostgres(tb testing.TB, ahead time.Duration) (dsn string, set func(ahead time.Duration)) {
	tb.Helper()
	dsn = Postgres(tb) + ",pg_catalog" // what the schema has goes before the server's own
	run := func(queries ...string) {
		tb.Helper()
		ctx := context.Background()
		conn, err := pgx.Connect(ctx, dsn)
		if err != nil {
			tb.Fatal(err)
		}
		var errs []error
		for _, query := range queries {
			_, err := conn.Exec(ctx, query)
			errs = append(errs, err)
		}
		if err := errors.Join(append(errs, conn.Close(ctx))...); err != nil {
			tb.Fatal(err)
		}
	}
	set = func(ahead time.Duration) {
		tb.Helper()
		run("UPDATE moved SET ahead = INTERVAL '" + ahead.String() + "'")
	}
	run(`CREATE TABLE moved (ahead INTERVAL NOT NULL)`, `INSERT INTO moved VALUES ('0')`,
		`CREATE FUNCTION clock_timestamp() RETURNS TIMESTAMPTZ LANGUAGE SQL AS 'SELECT pg_catalog.clock_timestamp() + ahead FROM moved'`)
	set(ahead)
	return dsn, set
}
