package metatest_test

import (
	"errors"
	"flag"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/database/dbtest"
	"sluice/database/sqlstore"
	"sluice/metastore/metatest"
)

// TestMain lets rapid play enough histories to detect a broken store, even with -short, which plays
// a fifth of them. It also prevents rapid from shortening and storing them: stored ones would be
// played on other stores.
func TestMain(m *testing.M) {
	if err := errors.Join(flag.Set("rapid.checks", "5000"), flag.Set("rapid.nofailfile", "true"), flag.Set("rapid.shrinktime", "1ms")); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// catch runs the suite's checks on broken stores.
func catch(t *testing.T, mutants []dbtest.Mutant) {
	dbtest.Catch(t, metatest.Checks(), openSQLite, mutants)
}

func openSQLite(path string, now func() time.Time) (dbtest.Handle, error) {
	return sqlstore.OpenSQLite(path, sqlstore.Options{Now: now})
}
