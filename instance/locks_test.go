package instance

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/access/actions"
	"sluice/blob"
	"sluice/database"
	"sluice/metastore"
	"sluice/storage"
	"sluice/test/testenv"
)

// TestRestoreKeepsLocks restores an instance, and an account of it, when locks have lasted for a
// year less by their clock than by the database's: the restored ones go on from there.
// Invariant 216.
func TestRestoreKeepsLocks(t *testing.T) {
	t.Parallel()
	data, repo := newSource(t), newRepository()
	source := endpointAt(t, data, true)
	ago := time.Now().Add(-365 * 24 * time.Hour).UTC().Format(time.RFC3339)
	testenv.OK(t, source.Meta.SetProperty(t.Context(), database.LocksProperty, ago))
	testenv.OK(t, source.Close())
	source = endpointAt(t, data, true)
	testenv.OK(t, testenv.Error(source.Meta.SetKeeping(t.Context(), "a", func(k *metastore.Keeping) (*actions.Act, error) {
		k.State, k.Locks = metastore.KeepOn, true
		return nil, nil
	})))
	blobs := blob.New(source.Meta, source.Bytes, blob.Options{})
	var versions []metastore.VersionName
	for name, lock := range map[string]metastore.Lock{"retained": {Mode: metastore.LockCompliance, Until: time.Now().Add(time.Hour)}, "held": {Hold: true}} {
		b := testenv.Must(blobs.Put(t.Context(), blob.PutOptions{Account: "a", Name: name, Lock: lock}, strings.NewReader("bytes"), 5))(t)
		versions = append(versions, metastore.VersionName{BlobName: metastore.BlobName{Account: "a", Name: name}, Version: metastore.VersionOf(&b)})
	}
	testenv.OK(t, source.Close())
	backedUp(t, data, repo)
	m := testenv.Must(repo.Open(t.Context(), ""))(t)
	for _, opt := range []RestoreOptions{{}, {Account: "a"}} {
		to := Location{Data: filepath.Join(testenv.MemoryDir(t), "restored")}
		testenv.Must(Restore(t.Context(), repo, m, to, opt))(t)
		s := testenv.Must(storage.Open(t.Context(), to, storage.Options{}))(t)
		testenv.AtEnd(t, s.Close)
		for range 2 {
			for _, v := range versions {
				err := testenv.Error(s.Meta.DeleteVersion(t.Context(), metastore.Deletion{VersionName: v}))
				testenv.Is(t, err, metastore.ErrLocked, "a deletion of %s after a restore of %q", v.Name, opt.Account)
			}
			testenv.OK(t, s.Meta.KeepTime(t.Context()))
		}
	}
}
