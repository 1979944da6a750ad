package client_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"sluice/client"
	"sluice/internal/vfs"
	"sluice/test/testenv"
)

// groupOf is a group with received files in two folders.
type groupOf struct {
	*client.FileGroup
	content []byte
	paths   []string
	files   []*client.ReceivedFile
}

// newGroup receives n files below a folder, and publishes none.
func newGroup(t *testing.T, dir string, n int) *groupOf {
	t.Helper()
	_, c := startServer(t)
	g := &groupOf{content: randomBytes(500)}
	storeBlob(t, c, g.content)
	root := testenv.Must(os.OpenRoot(dir))(t)
	t.Cleanup(func() { testenv.Check(t, root.Close()) })
	g.FileGroup = testenv.Must(client.NewFileGroup(root))(t)
	for i := range n {
		name := fmt.Sprintf("%d/file %d", i%2, i)
		testenv.OK(t, root.MkdirAll(filepath.Dir(name), 0o777))
		g.paths = append(g.paths, filepath.Join(dir, name))
		g.files = append(g.files, testenv.Must(c.ReceiveFile(t.Context(), "team", "a", name, client.DownloadOptions{Root: root}))(t))
		testenv.Equal(t, g.files[i].Blob().Size, 500, "a received blob's size")
	}
	for _, path := range g.paths {
		testenv.Is(t, testenv.Error(os.Stat(path)), fs.ErrNotExist, "a file before it is published")
	}
	return g
}

// TestFilesArePublishedTogether publishes few files, which are synced one by one, and many.
func TestFilesArePublishedTogether(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 3, 40} {
		dir := t.TempDir()
		g := newGroup(t, dir, n)
		for _, err := range g.Publish(g.files) {
			testenv.Check(t, err)
		}
		testenv.OK(t, g.Close())
		testenv.OK(t, os.WriteFile(filepath.Join(dir, "new"), nil, 0o666))
		mode := testenv.Must(os.Stat(filepath.Join(dir, "new")))(t).Mode()
		for _, path := range g.paths {
			checkContent(t, path, g.content)
			testenv.Equal(t, testenv.Must(os.Stat(path))(t).Mode(), mode, "a file's mode")
		}
		for i := range min(n, 2) {
			testenv.Equal(t, len(testenv.Must(os.ReadDir(filepath.Join(dir, fmt.Sprint(i))))(t)), (n+1-i)/2, "files in a folder")
		}
	}
}

// TestFileOfAGroupFailsAlone replaces a temporary file before its group is published.
func TestFileOfAGroupFailsAlone(t *testing.T) {
	t.Parallel()
	g := newGroup(t, t.TempDir(), 20)
	replaced := testenv.Must(filepath.Glob(filepath.Join(filepath.Dir(g.paths[7]), ".file 7.*.sluice-part")))(t)[0]
	testenv.OK(t, errors.Join(os.Remove(replaced), os.WriteFile(replaced, []byte("other"), 0o600)))
	for i, err := range g.Publish(g.files) {
		if i == 7 {
			testenv.Is(t, err, client.ErrChanged, "the file that was replaced")
			testenv.Is(t, testenv.Error(os.Stat(g.paths[i])), fs.ErrNotExist, "its name")
			continue
		}
		testenv.Check(t, err)
		checkContent(t, g.paths[i], g.content)
	}
	testenv.OK(t, g.Close())
}

// TestFailedSyncPublishesNothing syncs a file system that is no longer open.
func TestFailedSyncPublishesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := newGroup(t, dir, 20)
	testenv.OK(t, g.Close())
	whole, err := vfs.OS().Whole(dir)
	if errors.Is(err, errors.ErrUnsupported) { // then each file is synced
		for _, err := range g.Publish(g.files) {
			testenv.Check(t, err)
		}
		return
	}
	testenv.OK(t, errors.Join(err, whole.Close()))
	for i, err := range g.Publish(g.files) {
		if err == nil {
			t.Errorf("%s was published", g.paths[i])
		}
		testenv.Is(t, testenv.Error(os.Stat(g.paths[i])), fs.ErrNotExist, "a file")
	}
	for i := range 2 {
		testenv.Equal(t, len(testenv.Must(os.ReadDir(filepath.Join(dir, fmt.Sprint(i))))(t)), 0, "the files left")
	}
}
