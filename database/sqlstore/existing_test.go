package sqlstore

import (
	"os"
	"testing"

	"sluice/access/keys"
	"sluice/test/testenv"
)

// TestKeysOfACommand: a server notices a key that a command creates in the database, which it opens
// without changing its schema.
func TestKeysOfACommand(t *testing.T) {
	path := databasePath(t)
	running := openAt(t, path, Options{})
	before := testenv.Must(running.KeysVersion(t.Context()))(t)
	command := openAt(t, path, Options{Schema: Keep})
	testenv.Must(command.CreateKey(t.Context(), keys.Key{ID: "key", Group: "group"}, nil, nil))(t)
	if after, err := running.KeysVersion(t.Context()); err != nil || after == before {
		t.Fatalf("the version went from %d to %d, %v", before, after, err)
	}
	testenv.Must(running.Key(t.Context(), "key"))(t)
}

// TestKeysVersionAfterASetback: a database that was set back to before a revocation, and in which
// another key was changed since, has a version that nobody has seen.
// Invariant 34.
func TestKeysVersionAfterASetback(t *testing.T) {
	past, set := databasePath(t), databasePath(t)
	store := testenv.Must(OpenSQLite(past, Options{}))(t)
	testenv.Must(store.CreateKey(t.Context(), keys.Key{ID: "key", Group: "group"}, nil, nil))(t)
	testenv.Check(t, store.Close())
	testenv.Check(t, os.WriteFile(set, testenv.Must(os.ReadFile(past))(t), 0o600))

	store = openAt(t, past, Options{})
	testenv.Must(store.RevokeKey(t.Context(), "key", nil))(t)
	seen := testenv.Must(store.KeysVersion(t.Context()))(t)
	store = openAt(t, set, Options{})
	testenv.Must(store.CreateKey(t.Context(), keys.Key{ID: "another", Group: "group"}, nil, nil))(t)
	if now := testenv.Must(store.KeysVersion(t.Context()))(t); now == seen {
		t.Errorf("the version is %d in both pasts", now)
	}
}
