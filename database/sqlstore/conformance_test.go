package sqlstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"sluice/access/keys/keystest"
	"sluice/access/places/placestest"
	"sluice/database/dbtest"
	"sluice/database/sqlstore/internal/enginetest"
	"sluice/ledger/ledgertest"
	"sluice/metastore/metatest"
	"sluice/test/testclock"
	"sluice/test/testenv"
)

func openSQLite(path string, now func() time.Time) (dbtest.Handle, error) {
	return OpenSQLite(path, Options{Now: now})
}

// sqliteHarness returns a function that returns harnesses, each with a database in its own folder.
func sqliteHarness(tb testing.TB) func(testing.TB) *dbtest.Harness {
	newPath := dbtest.Copies(tb, openSQLite)
	return func(tb testing.TB) *dbtest.Harness {
		path, clock := newPath(tb), testclock.New()
		return dbtest.NewHarness(clock, func() (dbtest.Handle, error) { return openSQLite(path, clock.Now) })
	}
}

// newPostgresHarness returns a harness with its own schema, so that a test can move the server's
// clock.
func newPostgresHarness(tb testing.TB) *dbtest.Harness {
	dsn := testenv.Postgres(tb) + ",pg_catalog" // the schema's functions take precedence over the server's
	clock, conn := testclock.New(), enginetest.Connect(tb, dsn)
	execute := func(query string, in ...any) error {
		_, err := conn.Exec(context.Background(), query, in...)
		return err
	}
	testenv.OK(tb, errors.Join(
		execute(`CREATE TABLE clock (now TIMESTAMPTZ NOT NULL)`),
		execute(`INSERT INTO clock VALUES ($1)`, clock.Now()),
		execute(`CREATE FUNCTION clock_timestamp() RETURNS TIMESTAMPTZ LANGUAGE SQL AS 'SELECT now FROM clock'`),
	))
	h := dbtest.NewHarness(clock, func() (dbtest.Handle, error) {
		return OpenPostgres(context.Background(), dsn, Options{Now: clock.Now})
	})
	h.AdvanceEngine = func(d time.Duration) error {
		return execute(`UPDATE clock SET now = now + CAST($1 AS BIGINT) * INTERVAL '1 microsecond'`, d.Microseconds())
	}
	return h
}

// suites are the checks for every contract that the package implements.
func suites() [][]dbtest.Check {
	return [][]dbtest.Check{dbtest.Checks(), metatest.Checks(), ledgertest.Checks(), keystest.Checks(), placestest.Checks()}
}

// Invariants 5, 9, 12, 18, 37, 41, 74, 99, 100, 116, 118, 121, 138, 164, 167, 169, 171, 176, 179,
// 188, 209, 215.
func TestConformance(t *testing.T) { dbtest.Run(t, sqliteHarness(t), suites()...) }

// Invariants 37, 73, 83, 121, 138, 164, 167, 169, 171, 176, 179, 209, 215.
func TestConformancePostgres(t *testing.T) {
	testenv.Require(t, testenv.PostgreSQL)
	dbtest.Run(t, newPostgresHarness, suites()...)
}
