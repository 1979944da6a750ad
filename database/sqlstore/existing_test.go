package sqlstore

import (
	"testing"

	"sluice/access/keys"
	"sluice/internal/testenv"
)

// TestKeysOfACommand: a server notices a key that a command creates in the database, which it opens
// without changing its schema.
func TestKeysOfACommand(t *testing.T) {
	path := databasePath(t)
	running := openAt(t, path, Options{})
	before := testenv.Must(running.KeysVersion(t.Context()))(t)
	command := openAt(t, path, Options{Schema: Keep})
	testenv.Must(command.CreateKey(t.Context(), keys.Key{ID: "key", Group: "group"}))(t)
	if after, err := running.KeysVersion(t.Context()); err != nil || after == before {
		t.Fatalf("the version went from %d to %d, %v", before, after, err)
	}
	testenv.Must(running.Key(t.Context(), "key"))(t)
}
