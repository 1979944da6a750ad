package keystest_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/access/keys/keystest"
	"sluice/database/dbtest"
	"sluice/database/sqlstore"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// catch runs the suite's checks on broken stores.
func catch(t *testing.T, mutants []dbtest.Mutant) {
	dbtest.Catch(t, keystest.Checks(), openSQLite, mutants)
}

func openSQLite(path string, now func() time.Time) (dbtest.Handle, error) {
	return sqlstore.OpenSQLite(path, sqlstore.Options{Now: now})
}
