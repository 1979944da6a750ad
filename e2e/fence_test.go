package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/testenv"
)

// TestCopiedDataFolder copies a data folder, and starts the copy while its original runs on the
// same bucket. The copy must become not ready, report what to do, and delete and acknowledge
// nothing; the original must serve and delete as before.
func TestCopiedDataFolder(t *testing.T) {
	t.Parallel()
	objects := testenv.S3(t, testenv.S3Options{})
	o := options{
		dirty:   true, // the server logs the fence as an error
		wrapper: []string{"env", "AWS_ACCESS_KEY_ID=" + testenv.S3AccessKey, "AWS_SECRET_ACCESS_KEY=" + testenv.S3SecretKey},
		flags:   []string{"--bytes", fmt.Sprintf("s3://%s?endpoint=http://%s&path-style=on", objects.Bucket, objects.Addr)},
	}
	original := start(t, o)
	data := content(1, 100_000)
	for _, name := range []string{"kept", "gone"} {
		original.must(204, "PUT", blobTarget("0x1", name), data)
	}
	o.data = copyDatabase(t, original.data)
	duplicate := start(t, o)
	// These wait until the fence answers.
	checkProblem(t, duplicate.do("DELETE", blobTarget("0x1", "kept"), nil), 503, "not_ready")
	checkProblem(t, duplicate.do("PUT", blobTarget("0x1", "lost"), data), 503, "not_ready")
	duplicate.eventually("the copy is ready", func() bool { return duplicate.do("GET", "/readyz", nil).status == 503 })
	for _, write := range [][2]string{
		{"PUT", blobTarget("0x1", "lost")}, {"DELETE", blobTarget("0x1", "gone")}, {"POST", "/v1/sessions"}, {"POST", "/v1/multipart-uploads"},
	} {
		checkProblem(t, duplicate.do(write[0], write[1], []byte("{}")), 503, "not_ready")
	}
	if r := duplicate.must(200, "GET", blobTarget("0x1", "kept"), nil); digest(r.body) != digest(data) {
		t.Errorf("the copy returns %d other bytes", len(r.body))
	}
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
		t.Errorf("the copy's second start: %s", said)
	}
	if said := refusedStart(t, options{wrapper: o.wrapper, flags: o.flags, data: filepath.Join(t.TempDir(), "new")}); !strings.Contains(said, "the metadata has no instance id") {
		t.Errorf("start with a new data folder on the bucket: %s", said)
	}
}

// TestPausedOriginal suspends an instance while a copy of its data folder starts on the same bucket
// and becomes the fence's holder. When the original continues, it must acknowledge nothing. What
// the copy has acknowledged must remain. The copy's writes must have waited for as long as the
// original could still have written.
func TestPausedOriginal(t *testing.T) {
	t.Parallel()
	objects := testenv.S3(t, testenv.S3Options{})
	o := options{
		dirty:   true, // the server logs the fence as an error
		wrapper: []string{"env", "AWS_ACCESS_KEY_ID=" + testenv.S3AccessKey, "AWS_SECRET_ACCESS_KEY=" + testenv.S3SecretKey},
		flags:   []string{"--bytes", fmt.Sprintf("s3://%s?endpoint=http://%s&path-style=on", objects.Bucket, objects.Addr)},
	}
	original := start(t, o)
	data := content(1, 100_000)
	original.must(204, "PUT", blobTarget("0x1", "shared"), data)
	session := text(t, original.must(201, "POST", "/v1/sessions", []byte("{}")).object(t), "sessionId")
	original.signal(stopSignal)
	o.data = copyDatabase(t, original.data)
	duplicate := start(t, o)
	duplicate.must(200, "GET", blobTarget("0x1", "shared"), nil) // reads do not wait
	duplicate.must(204, "PUT", blobTarget("0x1", "late"), data)
	original.signal(continueSignal)
	for _, write := range [][2]string{
		{"PUT", blobTarget("0x1", "small")}, {"PUT", blobTarget("0x1", "late")}, {"DELETE", blobTarget("0x1", "shared")},
		{"POST", "/v1/sessions"}, {"POST", "/v1/sessions/" + session + "/use"},
	} {
		checkProblem(t, original.do(write[0], write[1], []byte("{}")), 503, "not_ready")
	}
	original.must(503, "GET", "/readyz", nil)
	for _, name := range []string{"shared", "late"} {
		if r := duplicate.must(200, "GET", blobTarget("0x1", name), nil); digest(r.body) != digest(data) {
			t.Errorf("the copy returns %d other bytes of %s", len(r.body), name)
		}
	}
}

// copyDatabase copies a data folder's database to a new folder. No process may be writing in it.
func copyDatabase(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.Mkdir(to, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"meta.db", "meta.db-wal"} {
		text, err := os.ReadFile(filepath.Join(from, file))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, file), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
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
