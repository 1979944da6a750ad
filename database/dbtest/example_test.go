package dbtest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"testing"

	"sluice/access/keys/keystest"
	"sluice/database/dbtest"
	"sluice/database/sqlstore"
	"sluice/ledger/ledgertest"
	"sluice/metastore/metatest"
	"sluice/test/testclock"
)

// An implementation runs all suites in a test. Each check gets a new harness, whose handles share
// one empty database and one clock.
func ExampleRun() {
	_ = func(t *testing.T) { // this is TestConformance in the package of the implementation
		newHarness := func(tb testing.TB) *dbtest.Harness { return newHarness(tb.TempDir()) }
		dbtest.Run(t, newHarness, dbtest.Checks(), metatest.Checks(), ledgertest.Checks(), keystest.Checks())
	}
}

// A single check can be run without a *testing.T.
func ExampleChecks() {
	for _, check := range dbtest.Checks() {
		if check.Name != "properties/set" {
			continue
		}
		dir, err := os.MkdirTemp("", "dbtest")
		if err != nil {
			log.Fatal(err)
		}
		defer os.RemoveAll(dir)
		h := newHarness(dir)
		fmt.Println(check.Name, errors.Join(check.Run(context.Background(), h), h.Close()))
	}
	// Output:
	// properties/set <nil>
}

func newHarness(dir string) *dbtest.Harness {
	clock := testclock.New()
	return dbtest.NewHarness(clock, func() (dbtest.Handle, error) {
		return sqlstore.OpenSQLite(filepath.Join(dir, "meta.db"), sqlstore.Options{Now: clock.Now})
	})
}
