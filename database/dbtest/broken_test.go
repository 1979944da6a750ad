package dbtest_test

import (
	"testing"

	"sluice/database/dbtest"
)

// TestBrokenDatabasesAreCaught breaks a store's rows. Planted faults break how its methods answer.
// Invariant 138.
func TestBrokenDatabasesAreCaught(t *testing.T) {
	catch(t, []dbtest.Mutant{
		{Name: "records have one nonce", Schema: dbtest.On(`AFTER INSERT ON records`, `UPDATE records SET nonce = x'61616161616161616161616161616161'`), Caught: []string{"history/records"}},
		{Name: "records have one owner", Schema: dbtest.On(`AFTER INSERT ON records`, `UPDATE records SET owner = x'61616161616161616161616161616161'`), Caught: []string{"history/records"}},
		{Name: "every record is outside", Schema: dbtest.On(`AFTER INSERT ON records`, `UPDATE records SET outside = 1`), Caught: []string{"history/records"}},
		{Name: "forgets the last record", Schema: dbtest.On(`AFTER INSERT ON records`, `DELETE FROM records WHERE number = NEW.number - 1`), Caught: []string{"history/records"}},
		{Name: "does not store some records", Schema: `CREATE TRIGGER broken BEFORE INSERT ON records WHEN NEW.number = 3 BEGIN SELECT RAISE(IGNORE); END`, Caught: []string{"history/racing"}},
		{Name: "retains one record too few", Schema: dbtest.On(`AFTER INSERT ON records`, `DELETE FROM records WHERE number <= NEW.number - 999`), Caught: []string{"history/retained"}},
		{Name: "a second setback replaces the first", Schema: dbtest.On(`AFTER UPDATE OF set_back ON history WHEN CAST(NEW.set_back AS TEXT) LIKE '%another%'`, `UPDATE history SET set_back = CAST('another' AS BLOB)`), Caught: []string{"history/setback"}},
		{Name: "a release has no effect", Schema: dbtest.On(`AFTER UPDATE OF kept_until ON history WHEN NEW.kept_until IS NULL`, `UPDATE history SET kept_until = OLD.kept_until`), Caught: []string{"history/setback"}},
		{Name: "a generation remains set back", Schema: dbtest.On(`AFTER UPDATE OF generation ON history`, `UPDATE history SET set_back = OLD.set_back`), Caught: []string{"history/setback"}},
		{Name: "removes no node", Schema: `CREATE TRIGGER broken BEFORE DELETE ON nodes BEGIN SELECT RAISE(IGNORE); END`, Caught: []string{"nodes/life", "nodes/listed"}},
		{Name: "two nodes lead", Schema: dbtest.On(`AFTER UPDATE OF leads ON nodes WHEN OLD.leads = 1 AND NEW.leads = 0`, `UPDATE nodes SET leads = 1 WHERE id = NEW.id`), Caught: []string{"nodes/listed"}},
		{Name: "publishes nothing again", Schema: `CREATE TRIGGER broken BEFORE UPDATE OF reason ON nodes BEGIN SELECT RAISE(IGNORE); END`, Caught: []string{"nodes/listed"}},
		{Name: "progress takes each start", Schema: dbtest.On(`AFTER UPDATE OF due ON tasks`, `UPDATE tasks SET wanted = NULL WHERE name = NEW.name`), Caught: []string{"tasks/life", "tasks/served"}},
		{Name: "a start stays after its run", Schema: dbtest.On(`AFTER UPDATE OF due ON tasks WHEN NEW.wanted IS NULL`, `UPDATE tasks SET wanted = OLD.wanted WHERE name = NEW.name`), Caught: []string{"tasks/served"}},
		{Name: "progress ends a pause", Schema: dbtest.On(`AFTER UPDATE OF due ON tasks`, `UPDATE tasks SET paused = NULL WHERE name = NEW.name`), Caught: []string{"tasks/life"}},
		{Name: "a change forgets the last run", Schema: dbtest.On(`AFTER UPDATE OF paused ON tasks`, `UPDATE tasks SET due = NULL WHERE name = NEW.name`), Caught: []string{"tasks/life"}},
		{Name: "a change is lost", Schema: `CREATE TRIGGER broken BEFORE UPDATE OF wanted ON tasks WHEN NEW.wanted > OLD.wanted BEGIN SELECT RAISE(IGNORE); END`, Caught: []string{"tasks/racing"}},
	})
}
