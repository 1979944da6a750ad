package keystest_test

import (
	"testing"

	"sluice/database/dbtest"
)

// TestBrokenKeysAreCaught breaks a store's rows. Planted faults break how its methods answer.
// Invariant 37.
func TestBrokenKeysAreCaught(t *testing.T) {
	catch(t, []dbtest.Mutant{
		{Name: "forgets expired keys", AfterPurge: `DELETE FROM api_keys WHERE expires IS NOT NULL`, Caught: []string{"keys/stay"}},
		{Name: "replaces a key of the same id", Schema: dbtest.On(`BEFORE INSERT ON api_keys`, `DELETE FROM api_keys WHERE id = NEW.id`), Caught: []string{"keys/create", "keys/racing-creators"}},
		{Name: "the version does not change", Schema: dbtest.On(`AFTER UPDATE ON keys_version`, `UPDATE keys_version SET version = 7`), Caught: []string{"keys/version"}},
		{Name: "an update revives a revoked key", Schema: dbtest.On(`AFTER UPDATE OF label ON api_keys`, `UPDATE api_keys SET revoked = NULL WHERE id = NEW.id`), Caught: []string{"keys/update"}},
		{Name: "an update forgets the S3 secret", Schema: dbtest.On(`AFTER UPDATE OF label ON api_keys`, `UPDATE api_keys SET s3_secret = NULL WHERE id = NEW.id`), Caught: []string{"keys/update"}},
		{Name: "new limits apply to all groups", Schema: dbtest.On(`AFTER UPDATE ON key_groups`, `UPDATE key_groups SET channels = NEW.channels`), Caught: []string{"keys/group-limits"}},
	})
}
