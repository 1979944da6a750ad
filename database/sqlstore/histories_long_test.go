//go:build long

package sqlstore

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/database/dbtest"
	"sluice/test/testenv"
)

// TestHistoriesLong plays random histories of every model on both engines. A failure names the seed
// of its history.
func TestHistoriesLong(t *testing.T) {
	testenv.Require(t, testenv.PostgreSQL)
	models := slices.DeleteFunc(slices.Concat(suites()...), func(c dbtest.Check) bool { return !strings.HasPrefix(c.Name, "model/") })
	newSQLite := sqliteHarness(t)
	rounds := 0
	for end := time.Now().Add(testenv.LongDuration(t)); rounds == 0 || time.Now().Before(end); rounds++ {
		t.Run(fmt.Sprint("SQLite ", rounds), func(t *testing.T) { dbtest.Run(t, newSQLite, models) })
		t.Run(fmt.Sprint("PostgreSQL ", rounds), func(t *testing.T) { dbtest.Run(t, newPostgresHarness, models) })
	}
	t.Logf("%d models played %d times %s histories on each engine", len(models), rounds, histories)
}
