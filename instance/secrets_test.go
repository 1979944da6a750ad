package instance

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/access/sealed"
	"sluice/admin"
	"sluice/database"
	"sluice/storage"
	"sluice/test/testenv"
	"sluice/wire"
)

// TestNoSecretIsKept creates keys, one of them repeatedly, and gives one new secrets. No file of
// the data folder has any of their secrets, nor has one that a backup restores. Invariant 201.
func TestNoSecretIsKept(t *testing.T) {
	t.Parallel()
	data := newSource(t)
	running := testenv.Must(storage.Open(t.Context(), storage.Location{Data: data}, storage.Options{}))(t)
	box := testenv.Must(sealed.Parse([]byte(strings.Repeat("cd", 32))))(t)
	s, by := admin.New(running.Meta, admin.Options{S3: box}), admin.By{From: "192.0.2.1"}
	ask := wire.CreateKey{Label: "canary", Grants: []wire.Grant{{Scopes: []string{"admin"}}}, S3: true}
	once := &database.Idempotency{Scope: "create", Key: "1", Owner: "g"}
	first := testenv.Must(s.CreateKey(t.Context(), by, ask, once))(t)
	again := testenv.Must(s.CreateKey(t.Context(), by, ask, once))(t)
	if again.ID != first.ID || again.Secret+again.S3Secret != "" {
		t.Errorf("a repeated creation returns %+v", again)
	}
	renewed := testenv.Must(s.UpdateKey(t.Context(), by, first.ID, admin.KeyUpdate{UpdateKey: wire.UpdateKey{NewSecret: true, NewS3Secret: true}}))(t)
	var secrets []string
	for _, k := range []wire.IssuedKey{first, renewed} {
		secrets = append(secrets, k.Secret[strings.LastIndex(k.Secret, "_")+1:], k.S3Secret)
	}
	repo := newRepository()
	backedUp(t, data, repo)
	testenv.OK(t, running.Close())
	m := testenv.Must(repo.Open(t.Context(), ""))(t)
	to := filepath.Join(testenv.MemoryDir(t), "restored")
	testenv.Must(Restore(t.Context(), repo, m, Location{Data: to}, RestoreOptions{}))(t)
	for _, folder := range []string{data, to} {
		labels := 0
		testenv.OK(t, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			labels += bytes.Count(content, []byte(ask.Label))
			for i, secret := range secrets {
				if len(secret) < 40 || bytes.Contains(content, []byte(secret)) {
					t.Errorf("%s has the secret %d", path, i)
				}
			}
			return err
		}))
		if labels == 0 { // which the database has, as it would have a secret
			t.Errorf("%s has no label of a key", folder)
		}
	}
}
