package instance

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"sluice/backup"
	"sluice/blob"
	"sluice/metastore"
	"sluice/storage"
	"sluice/test/testenv"
)

// folderMarkers are markers in the account a by their keys: small ones, as mounts and consoles
// write them, and one with an object.
var folderMarkers = map[string]string{"dir/": "", "dir/note/": "inline", "large/": strings.Repeat("folder", 200_000)}

// newMarked creates a data folder with these markers, and with a bucket that the account b has
// created.
func newMarked(t *testing.T) string {
	t.Helper()
	data := newSource(t)
	s := testenv.Must(storage.Open(t.Context(), Location{Data: data}, storage.Options{}))(t)
	blobs := blob.New(s.Meta, s.Bytes, blob.Options{})
	for key, body := range folderMarkers {
		at := blob.Place("a", key)
		testenv.Must(blobs.Put(t.Context(), blob.PutOptions{Account: at.Account, Name: at.Name, Metadata: "of " + key}, strings.NewReader(body), int64(len(body))))(t)
	}
	testenv.OK(t, blobs.CreateBucket(t.Context(), "b", ""))
	testenv.OK(t, s.Close())
	return data
}

// checkMarked reads everything that newMarked has created.
func checkMarked(t *testing.T, s *storage.Stores, after string) {
	t.Helper()
	blobs := blob.New(s.Meta, s.Bytes, blob.Options{})
	for key, body := range folderMarkers {
		at := blob.Place("a", key)
		c := testenv.Must(blobs.Open(t.Context(), at.Account, at.Name))(t)
		var got bytes.Buffer
		_, err := c.WriteRange(t.Context(), &got, 0, c.Size)
		if c.Close(); err != nil || got.String() != body || c.Metadata != "of "+key {
			t.Errorf("after %s the marker %s has %d bytes, %q, %v", after, key, got.Len(), c.Metadata, err)
		}
	}
	page := testenv.Must(blobs.ListKeys(t.Context(), metastore.ListQuery{Account: "a", Delimiter: "/", Limit: 100}))(t)
	if !slices.Equal(page.Prefixes, []string{"dir/", "large/"}) || len(page.Blobs) != sourceBlobs {
		t.Errorf("after %s the folders are %q beside %d blobs", after, page.Prefixes, len(page.Blobs))
	}
	for account, want := range map[string]bool{"b": true, "c": false} {
		testenv.Equal(t, testenv.Must(blobs.IsBucketCreated(t.Context(), account))(t), want, "the record of the bucket %s after %s", account, after)
	}
}

// TestFolderMarkersSurvive: the folders' markers and the records of buckets, which only S3's
// interface sees, are in backups, and are read by a check, as the blobs are.
// Invariant 186.
func TestFolderMarkersSurvive(t *testing.T) {
	t.Parallel()
	data := newMarked(t)
	found := checkAll(t, data)
	wantWhole(t, found, "with markers")

	repo := newRepository()
	made := backedUp(t, data, repo)
	testenv.Equal(t, made.Blobs, int64(sourceBlobs+len(folderMarkers)+1), "the backup's blobs")
	testenv.Must(repo.Verify(t.Context(), made.Manifest, backup.VerifyOptions{Bytes: true}))(t)
	s, result := restored(t, repo, RestoreOptions{})
	testenv.Equal(t, result.Blobs, made.Blobs, "the restored blobs")
	checkMarked(t, s, "a restore")

	changed := 0
	for _, file := range objectFiles(t, data) {
		if text := testenv.Must(os.ReadFile(file))(t); strings.HasPrefix(string(text), "folder") {
			testenv.OK(t, flip(file, 100))
			changed++
		}
	}
	testenv.Equal(t, changed, 1, "objects of markers")
	found = checkAll(t, data)
	if damaged := (planted{kind: DamagedBlob, says: `~a/large/`}); !damaged.in(found) {
		t.Errorf("a damaged marker is not named: %+v", found.Findings)
	}
}
