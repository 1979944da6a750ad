package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/testenv"
)

// TestCopiedDataFolder starts a copy of a data folder while its original runs on the same bucket.
// The copy must become not ready, report what to do, and delete nothing; the original must serve
// and delete as before.
func TestCopiedDataFolder(t *testing.T) {
	t.Parallel()
	objects := testenv.S3(t, testenv.S3Options{})
	o := options{
		dirty:   true, // the fence is logged as an error
		wrapper: []string{"env", "AWS_ACCESS_KEY_ID=" + testenv.S3AccessKey, "AWS_SECRET_ACCESS_KEY=" + testenv.S3SecretKey},
		flags:   []string{"--bytes", fmt.Sprintf("s3://%s?endpoint=http://%s&path-style=on", objects.Bucket, objects.Addr)},
	}
	original := start(t, o)
	data := content(1, 100_000)
	for _, name := range []string{"kept", "gone"} {
		original.must(204, "PUT", blobTarget("0x1", name), data)
	}
	o.data = filepath.Join(t.TempDir(), "copy")
	if err := os.Mkdir(o.data, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"meta.db", "meta.db-wal"} { // no process is writing now
		text, err := os.ReadFile(filepath.Join(original.data, file))
		if err == nil {
			err = os.WriteFile(filepath.Join(o.data, file), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	duplicate := start(t, o)
	duplicate.must(204, "DELETE", blobTarget("0x1", "kept"), nil)
	duplicate.eventually("the copy is ready", func() bool { return duplicate.do("GET", "/readyz", nil).status == 503 })
	duplicate.logged("deletions have stopped", "another database with the same instance id", "delete the objects sluice-epoch-*")
	original.must(200, "GET", "/readyz", nil)
	if r := original.must(200, "GET", blobTarget("0x1", "kept"), nil); digest(r.body) != digest(data) {
		t.Errorf("the original returns %d other bytes for a blob that the copy deleted", len(r.body))
	}
	before := countObjects(t, objects)
	original.must(204, "DELETE", blobTarget("0x1", "gone"), nil)
	if after := countObjects(t, objects); after != before-1 {
		t.Errorf("the bucket had %d objects before the original deleted a blob, and has %d now", before, after)
	}
	duplicate.stop()
	original.stop()
	if said := refusedStart(t, o); !strings.Contains(said, "another database with the same instance id") {
		t.Errorf("second start of the copy: %s", said)
	}
	if said := refusedStart(t, options{wrapper: o.wrapper, flags: o.flags, data: filepath.Join(t.TempDir(), "new")}); !strings.Contains(said, "the metadata has no instance id") {
		t.Errorf("start with a new data folder on the bucket: %s", said)
	}
}

// countObjects counts the objects that contain contents.
func countObjects(t *testing.T, objects *testenv.S3Server) int {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(objects.Folder(), "??-*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}
