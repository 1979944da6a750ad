package placestest_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/access/places/placestest"
	"sluice/database/dbtest"
	"sluice/database/sqlstore"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func openSQLite(path string, now func() time.Time) (dbtest.Handle, error) {
	return sqlstore.OpenSQLite(path, sqlstore.Options{Now: now})
}

// TestBrokenPlacesAreCaught breaks a store's rows. Planted faults break how its methods answer.
// Invariant 195.
func TestBrokenPlacesAreCaught(t *testing.T) {
	dbtest.Catch(t, placestest.Checks(), openSQLite, []dbtest.Mutant{
		{Name: "the number does not change", Schema: dbtest.On(`AFTER UPDATE ON places_version`, `UPDATE places_version SET number = 1`), Caught: []string{"places/changes", "places/racing"}},
		{Name: "the marks are not added up", Schema: dbtest.On(`AFTER UPDATE ON places_version`, `UPDATE places_version SET marks = 7`), Caught: []string{"places/changes", "places/model"}},
		{Name: "a block forgets its time", Schema: dbtest.On(`AFTER UPDATE OF blocked_reason ON places`, `UPDATE places SET blocked_since = blocked_since + 1 WHERE account = NEW.account AND name = NEW.name AND exact = NEW.exact`), Caught: []string{"places/block"}},
		{Name: "a prefix and a name share their settings", Schema: dbtest.On(`AFTER INSERT ON places`, `UPDATE places SET lists = 'x' WHERE account = NEW.account AND name = NEW.name`), Caught: []string{"places/change"}},
		{Name: "deleted places are not forgotten", Schema: dbtest.On(`AFTER UPDATE ON places_version`, `UPDATE places_version SET forgotten = 0`), Caught: []string{"places/changes"}},
	})
}
