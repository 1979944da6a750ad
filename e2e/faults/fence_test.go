package faults

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestCopiedDataFolder copies a data folder, and starts the copy while its original runs on the
// same bucket. The copy must become not ready, report the remedy, and delete and acknowledge
// nothing; the original must serve and delete as before.
// Invariant 94.
func TestCopiedDataFolder(t *testing.T) {
	t.Parallel()
	objects := testenv.S3(t, testenv.S3Options{})
	o := e2e.OnObjects(objects)
	o.Dirty = true // the server logs the fence as an error
	original := e2e.Start(t, o)
	data := e2e.Content(1, 100_000)
	for _, name := range []string{"kept", "gone"} {
		original.Must(204, "PUT", e2e.BlobTarget("0x1", name), data)
	}
	o.Data = copyDatabase(t, original.Data)
	duplicate := e2e.Start(t, o)
	// These wait until the fence answers.
	e2e.CheckProblem(t, duplicate.Do("DELETE", e2e.BlobTarget("0x1", "kept"), nil), 503, "not_ready")
	e2e.CheckProblem(t, duplicate.Do("PUT", e2e.BlobTarget("0x1", "lost"), data), 503, "not_ready")
	duplicate.Eventually("the copy is ready", func() bool { return duplicate.Do("GET", "/readyz", nil).Status == 503 })
	for _, write := range [][2]string{
		{"PUT", e2e.BlobTarget("0x1", "lost")}, {"DELETE", e2e.BlobTarget("0x1", "gone")}, {"POST", "/v1/sessions"}, {"POST", "/v1/multipart-uploads"},
	} {
		e2e.CheckProblem(t, duplicate.Do(write[0], write[1], []byte("{}")), 503, "not_ready")
	}
	duplicate.Holds(e2e.BlobTarget("0x1", "kept"), data)
	duplicate.Logged("deletions have stopped", "another database with the same instance id", "run sluice recover for it")
	original.Must(200, "GET", "/readyz", nil)
	original.Holds(e2e.BlobTarget("0x1", "kept"), data)
	before := countObjects(t, objects)
	original.Must(204, "DELETE", e2e.BlobTarget("0x1", "gone"), nil)
	if after := countObjects(t, objects); after != before-1 {
		t.Errorf("the bucket had %d objects before the original deleted a blob, and has %d now", before, after)
	}
	duplicate.Stop()
	original.Stop()
	if said := e2e.RefusedStart(t, o); !strings.Contains(said, "another database with the same instance id") {
		t.Errorf("the copy's second start: %s", said)
	}
	if said := e2e.RefusedStart(t, e2e.Options{Wrapper: o.Wrapper, Flags: o.Flags, Data: filepath.Join(t.TempDir(), "new")}); !strings.Contains(said, "the metadata has no instance id") {
		t.Errorf("start with a new data folder on the bucket: %s", said)
	}
}

// TestPausedOriginal suspends an instance while a copy of its data folder starts on the same bucket
// and becomes the fence's holder. When the original continues, it must acknowledge nothing. The
// copy's acknowledged writes must remain. The copy's writes must have waited for as long as the
// original could still have written.
// Invariant 94.
func TestPausedOriginal(t *testing.T) {
	t.Parallel()
	objects := testenv.S3(t, testenv.S3Options{})
	o := e2e.OnObjects(objects)
	o.Dirty = true // the server logs the fence as an error
	original := e2e.Start(t, o)
	data := e2e.Content(1, 100_000)
	original.Must(204, "PUT", e2e.BlobTarget("0x1", "shared"), data)
	session := e2e.Text(t, original.Must(201, "POST", "/v1/sessions", []byte("{}")).Object(t), "sessionId")
	original.Signal(e2e.StopSignal)
	o.Data = copyDatabase(t, original.Data)
	duplicate := e2e.Start(t, o)
	duplicate.Must(200, "GET", e2e.BlobTarget("0x1", "shared"), nil) // reads do not wait
	duplicate.Must(204, "PUT", e2e.BlobTarget("0x1", "late"), data)
	original.Signal(e2e.ContinueSignal)
	for _, write := range [][2]string{
		{"PUT", e2e.BlobTarget("0x1", "small")}, {"PUT", e2e.BlobTarget("0x1", "late")}, {"DELETE", e2e.BlobTarget("0x1", "shared")},
		{"POST", "/v1/sessions"}, {"POST", "/v1/sessions/" + session + "/use"},
	} {
		e2e.CheckProblem(t, original.Do(write[0], write[1], []byte("{}")), 503, "not_ready")
	}
	original.Must(503, "GET", "/readyz", nil)
	for _, name := range []string{"shared", "late"} {
		duplicate.Holds(e2e.BlobTarget("0x1", name), data)
	}
}

// copyDatabase copies a data folder's database to a new folder. No process may be writing in it.
func copyDatabase(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	testenv.OK(t, os.Mkdir(to, 0o700))
	for _, file := range []string{"meta.db", "meta.db-wal"} {
		text, err := os.ReadFile(filepath.Join(from, file))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, file), text, 0o600)
		}
		testenv.OK(t, err)
	}
	return to
}

// countObjects counts the objects that contain contents.
func countObjects(t *testing.T, objects *testenv.S3Server) int {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(objects.Folder(), "??-*"))
	testenv.OK(t, err)
	return len(found)
}
