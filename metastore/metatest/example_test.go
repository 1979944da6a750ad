package metatest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"testing"

	"sluice/database/sqlstore"
	"sluice/internal/testclock"
	"sluice/metastore/metatest"
)

// An implementation runs the whole suite in a test. Each check gets a new harness, whose handles
// share one empty database and one clock.
func ExampleRun() {
	_ = func(t *testing.T) { // this is TestConformance in the package of the implementation
		metatest.Run(t, func(tb testing.TB) *metatest.Harness {
			return newHarness(tb.TempDir())
		})
	}
}

// A single check can be run without a *testing.T.
func ExampleChecks() {
	for _, check := range metatest.Checks() {
		if check.Name != "properties/set" {
			continue
		}
		dir, err := os.MkdirTemp("", "metatest")
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

func newHarness(dir string) *metatest.Harness {
	clock := testclock.New()
	return metatest.NewHarness(clock, func() (metatest.Handle, error) {
		return sqlstore.OpenSQLite(filepath.Join(dir, "meta.db"), sqlstore.Options{Now: clock.Now})
	})
}
