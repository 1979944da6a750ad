package folder_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/client"
	"sluice/client/folder"
	"sluice/test/testenv"
)

// TestComposedNames syncs and stores files with names that their blobs have in another form, as on
// macOS: they are the same, and nothing is deleted. If both forms exist, each has its own.
func TestComposedNames(t *testing.T) {
	const composed, decomposed = "\u00e9.txt", "e\u0301.txt"
	s := newService(t)
	s.store(map[string]string{composed: "same", "sub/" + composed: "old", "linked-" + composed: "kept"})
	dir := newFiles(t, map[string]string{decomposed: "same", "sub/" + decomposed: "new"})
	testenv.OK(t, os.Symlink("x", filepath.Join(dir, "linked-"+decomposed)))
	sync := syncOptions{Delete: true}
	wantRun(mirror(t.Context(), folder.Dir(dir), s.team(""), sync))(t, "the sync", folder.Summary{Copied: 1, Unchanged: 1, Skipped: 1, Bytes: 3}, nil)
	wantNames(t, s.names("team"), "linked-"+composed, "sub/"+composed, composed)
	wantRun(upload(t.Context(), folder.Dir(dir), s.team(""), folder.Options{ContentOnly: true}))(t, "the upload", folder.Summary{Unchanged: 2, Skipped: 1}, nil)
	testenv.OK(t, os.WriteFile(filepath.Join(dir, composed), []byte("same"), 0o600))
	wantRun(upload(t.Context(), folder.Dir(dir), s.team(""), folder.Options{ContentOnly: true}))(t, "both forms", folder.Summary{Copied: 1, Unchanged: 2, Skipped: 1, Bytes: 4}, nil)
	wantNames(t, s.names("team"), decomposed, "linked-"+composed, "sub/"+composed, composed)
	sync.TrackRenames = true // the blob that is moved has the composed name
	testenv.OK(t, errors.Join(os.Remove(filepath.Join(dir, "sub", decomposed)), os.WriteFile(filepath.Join(dir, "renamed"), []byte("new"), 0o600)))
	wantRun(mirror(t.Context(), folder.Dir(dir), s.team(""), sync))(t, "a rename", folder.Summary{Moved: 1, Unchanged: 2, Skipped: 1}, nil)
}

// TestPreserve keeps files' attributes, even if their content is there already.
func TestPreserve(t *testing.T) {
	testenv.Require(t, testenv.Unix)
	s := newService(t)
	dir, back, modified := newFiles(t, map[string]string{"a": "a", "sub/b": "b", "copy": "b"}), t.TempDir(), time.Unix(1354040105, 123456789)
	attributes := func(path string, mode os.FileMode) {
		t.Helper()
		info := testenv.Must(os.Stat(path))(t)
		testenv.Equal(t, info.ModTime().UTC(), modified.UTC(), "the time of %s", path)
		testenv.Equal(t, info.Mode(), mode, "the mode of %s", path)
	}
	for _, name := range []string{"a", "sub/b", "copy"} {
		testenv.OK(t, errors.Join(os.Chtimes(filepath.Join(dir, name), modified, modified), os.Chmod(filepath.Join(dir, name), 0o754)))
	}
	o := folder.Options{Preserve: true, TrackRenames: true, Put: client.PutOptions{Metadata: map[string]string{"color": "blue"}}}
	wantRun(upload(t.Context(), folder.Dir(dir), s.team(""), o))(t, "the upload", folder.Summary{Copied: 3, Bytes: 3}, nil)
	wantRun(upload(t.Context(), folder.Dir(dir), s.team(""), o))(t, "the second upload", folder.Summary{Unchanged: 3}, nil)
	testenv.Equal(t, fmt.Sprint(testenv.Must(s.Head(t.Context(), "team", "a"))(t).Metadata), "map[color:blue mode:100754 mtime:1354040105.123456789]", "the metadata")
	wantRun(download(t.Context(), s.team(""), folder.Dir(back), o))(t, "the download", folder.Summary{Copied: 3, Bytes: 3}, nil)
	testenv.OK(t, errors.Join(os.Chtimes(filepath.Join(back, "a"), time.Time{}, time.Now()), os.Chmod(filepath.Join(back, "a"), 0o600)))
	wantRun(download(t.Context(), s.team(""), folder.Dir(back), o))(t, "the second download", folder.Summary{Unchanged: 3}, nil)
	for _, name := range []string{"a", "sub/b", "copy"} {
		attributes(filepath.Join(back, name), 0o754)
	}
	testenv.OK(t, os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "c")))
	testenv.Must(mirror(t.Context(), folder.Dir(dir), s.team(""), syncOptions{Options: o}))(t)
	testenv.Equal(t, testenv.Must(s.Head(t.Context(), "team", "c"))(t).Metadata["mode"], "100754", "the mode of a copy in the target")
}
