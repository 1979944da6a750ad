package client_test

import (
	"mime"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/client"
	"sluice/test/testenv"
)

// TestContentTypesOfTheTable checks that the type of a name is the same on every machine.
func TestContentTypesOfTheTable(t *testing.T) {
	for ending, local := range map[string]string{".md": "x/local", ".local": "x/local"} {
		testenv.OK(t, mime.AddExtensionType(ending, local))
	}
	for name, want := range map[string]string{
		"a.md": "text/markdown; charset=utf-8", "a.JPG": "image/jpeg", "a.parquet": "application/vnd.apache.parquet",
		"a.js": "text/javascript; charset=utf-8", "a.tar.gz": "application/gzip", "a.local": "text/plain; charset=utf-8", "gz": "text/plain; charset=utf-8",
	} {
		testenv.Equal(t, client.ContentType(name, []byte("text")), want, "the type of %s", name)
	}
}

// TestRestoresFiles stores files and reads them: times and permissions are kept as rclone keeps
// them, and no other bits of a mode are set.
func TestRestoresFiles(t *testing.T) {
	testenv.Require(t, testenv.Unix)
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	testenv.OK(t, os.WriteFile(path, nil, 0o600))
	root := testenv.Must(os.OpenRoot(dir))(t)
	testenv.AtEnd(t, root.Close)
	// As TimeToFloatString of ncw/swift, which rclone uses.
	for modified, want := range map[time.Time]string{
		time.Unix(1354040105, 123456789): "1354040105.123456789", time.Unix(1700000000, 0): "1700000000", time.Unix(-2, 5e8): "-1.5", time.Unix(0, 10): "0.00000001",
	} {
		testenv.OK(t, os.Chtimes(path, time.Time{}, modified))
		meta := client.FileMetadata(testenv.Must(os.Stat(path))(t))
		testenv.Equal(t, meta["mtime"]+" "+meta["mode"], want+" 100600", "the metadata")
		testenv.OK(t, os.Chtimes(path, time.Time{}, time.Now()))
		testenv.OK(t, client.RestoreFile(root, "a", meta))
		testenv.Equal(t, testenv.Must(os.Stat(path))(t).ModTime().UTC(), modified.UTC(), "the restored time")
	}
	for mode, want := range map[string]os.FileMode{
		"100640": 0o640, "0100755": 0o755, "644": 0o644, "106777": 0o777, // without set-user-id
		"33188": 0o777, "40700": 0o777, "": 0o777, "-1": 0o777, // the mode before remains
	} {
		testenv.OK(t, os.Chmod(path, 0o777))
		testenv.OK(t, client.RestoreFile(root, "a", map[string]string{"mode": mode}))
		testenv.Equal(t, testenv.Must(os.Stat(path))(t).Mode(), want, "the mode of %q", mode)
	}
}

// FuzzModified parses times from metadata, which anybody may have written.
func FuzzModified(f *testing.F) {
	for _, seed := range []string{"1354040105.123456789", "-1.5", "0.00000001", "1e9", "99999999999999999999", "1.2.3", "-", "."} {
		f.Add(seed)
	}
	dir := f.TempDir()
	testenv.OK(f, os.WriteFile(filepath.Join(dir, "a"), nil, 0o600))
	root := testenv.Must(os.OpenRoot(dir))(f)
	testenv.AtEnd(f, root.Close)
	before := time.Unix(12345, 0)
	f.Fuzz(func(t *testing.T, text string) {
		testenv.OK(t, root.Chtimes("a", before, before))
		testenv.OK(t, client.RestoreFile(root, "a", map[string]string{"mtime": text}))
		info := testenv.Must(root.Stat("a"))(t)
		if after := info.ModTime(); !after.Equal(before) && !strings.HasPrefix(text+"0000000000", client.FileMetadata(info)["mtime"]) && !strings.HasPrefix(text, "0") && !strings.HasPrefix(text, "-0") {
			t.Errorf("%q became %v", text, after)
		}
	})
}
