package sqlstore

import (
	"testing"

	"sluice/access/keys"
)

// TestKeysOfACommand: a server notices a key that a command creates in the database, which it opens
// without changing its schema.
func TestKeysOfACommand(t *testing.T) {
	path := databasePath(t)
	running := openAt(t, path, Options{})
	before, err := running.KeysVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	command := openAt(t, path, Options{Schema: Keep})
	if _, err := command.CreateKey(t.Context(), keys.Key{ID: "key", Group: "group"}); err != nil {
		t.Fatal(err)
	}
	if after, err := running.KeysVersion(t.Context()); err != nil || after == before {
		t.Fatalf("the version went from %d to %d, %v", before, after, err)
	}
	if _, err := running.Key(t.Context(), "key"); err != nil {
		t.Fatal(err)
	}
}
