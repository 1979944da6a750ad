package client_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"sluice/client"
	"sluice/test/testenv"
)

// TestFS checks the file systems for an account and for a prefix.
func TestFS(t *testing.T) {
	t.Parallel()
	_, c := startServer(t)
	for _, name := range []string{
		"a.txt", "empty", "dir/b", "dir/c", "dir/sub/d", "dir-1", "dir!", "日本/x y",
		"both", "both/inside", // the folder is shown
		"dir//e", "/f", "../g", "dir/./h", "dir/../i", "x/./y", "bad//z", ".", "..", // left out
	} {
		content := "content of " + name
		if name == "empty" {
			content = ""
		}
		if _, err := c.Put(t.Context(), "team", name, strings.NewReader(content), client.PutOptions{}); err != nil {
			t.Fatalf("%q: %v", name, err)
		}
	}
	whole := c.FS(t.Context(), "team", "")
	testenv.Check(t, fstest.TestFS(whole, "a.txt", "empty", "dir/b", "dir/c", "dir/sub/d", "dir-1", "dir!", "日本/x y", "both/inside", "x", "bad"))
	testenv.Check(t, fstest.TestFS(c.FS(t.Context(), "team", "dir"), "b", "c", "sub/d"))
	var files []string
	if err := fs.WalkDir(whole, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
			content, readErr := fs.ReadFile(whole, path)
			if readErr != nil || path != "empty" && string(content) != "content of "+path {
				t.Errorf("%s: %q, %v", path, content, readErr)
			}
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	if want := []string{"a.txt", "both/inside", "dir/b", "dir/c", "dir/sub/d", "dir!", "dir-1", "empty", "日本/x y"}; !slices.Equal(slices.Sorted(slices.Values(files)), slices.Sorted(slices.Values(want))) {
		t.Errorf("files %q", files)
	}
}

// TestErrorsOfFS checks the classes of errors.
func TestErrorsOfFS(t *testing.T) {
	s, c := startServer(t)
	testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", strings.NewReader("text"), client.PutOptions{})))
	fsys := c.FS(t.Context(), "team", "")
	opened := testenv.Must(fsys.Open("a"))(t)
	testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", strings.NewReader("other text"), client.PutOptions{})))
	var pathError *fs.PathError
	if _, err := io.ReadAll(opened); !errors.Is(err, client.ErrChanged) || !errors.As(err, &pathError) {
		t.Errorf("a replaced blob: %v", err)
	}
	pathError = nil
	if _, err := opened.(io.ReaderAt).ReadAt(make([]byte, 1), 1); !errors.Is(err, client.ErrChanged) || !errors.As(err, &pathError) {
		t.Errorf("ReadAt of a replaced blob: %v", err)
	}
	pathError = nil
	if _, err := opened.(io.Seeker).Seek(-1, io.SeekStart); !errors.As(err, &pathError) {
		t.Errorf("Seek to before the beginning: %v", err)
	}
	testenv.Is(t, testenv.Error(opened.(io.ReaderAt).ReadAt(make([]byte, 1), 100)), io.EOF, "ReadAt after the end")
	testenv.Check(t, opened.Close())
	testenv.Is(t, testenv.Error(fsys.Open("none")), fs.ErrNotExist, "no blob")
	if _, err := fs.ReadDir(fsys, "a"); err == nil {
		t.Error("a file is read as a folder")
	}
	s.setHook(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(http.StatusForbidden) })
	testenv.Is(t, testenv.Error(fs.Stat(fsys, "a")), fs.ErrPermission, "forbidden")
	s.setHook(nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	testenv.Is(t, testenv.Error(c.FS(ctx, "team", "").Open("a")), context.Canceled, "cancelled")
}
