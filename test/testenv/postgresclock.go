package testenv

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// MovedPostgres returns an empty schema's DSN, as Postgres does, and a function that sets by how
// much clock_timestamp() is ahead of this machine's clock there. It affects every statement that
// calls clock_timestamp() without a schema. Tests use it to run a node with a wrong clock.
func MovedPostgres(tb testing.TB, ahead time.Duration) (dsn string, set func(ahead time.Duration)) {
	tb.Helper()
	dsn = Postgres(tb) + ",pg_catalog" // the schema's functions take precedence over the built-in ones
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
