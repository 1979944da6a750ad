//go:build unix

package instance

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/backup"
	"sluice/bytestore/localfs"
	"sluice/test/testenv"
)

// TestNamedPipesInABackup puts a named pipe in place of each file in a place of backups. It is as
// if the file were missing, and nothing waits for a writer.
// Invariant 123.
func TestNamedPipesInABackup(t *testing.T) {
	place := testenv.MemoryDir(t)
	files := testenv.Must(localfs.Open(place, localfs.Options{}))(t)
	testenv.AtEnd(t, files.Close)
	repo := &backup.Repository{Bytes: files}
	backedUp(t, newSource(t), repo)
	pipes := 0
	testenv.OK(t, filepath.WalkDir(place, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		if info := testenv.Must(entry.Info())(t); info.Size() == 0 {
			return nil // it marks the repository
		}
		pipes++
		testenv.OK(t, os.Rename(path, path+"~"))
		testenv.OK(t, unix.Mkfifo(path, 0o600))
		m, err := repo.Open(t.Context(), "")
		if err == nil {
			_, err = repo.Verify(t.Context(), m, backup.VerifyOptions{Bytes: true})
			testenv.Is(t, err, backup.ErrDamaged, "verifying with a pipe at %s", path)
			to := Location{Data: filepath.Join(testenv.MemoryDir(t), "to")}
			testenv.Is(t, testenv.Error(Restore(t.Context(), repo, m, to, RestoreOptions{})), backup.ErrDamaged, "restoring with a pipe at %s", path)
		}
		testenv.OK(t, os.Remove(path))
		return os.Rename(path+"~", path)
	}))
	if pipes < 3 {
		t.Errorf("there were %d files", pipes)
	}
	m := testenv.Must(repo.Open(t.Context(), ""))(t)
	testenv.Must(repo.Verify(t.Context(), m, backup.VerifyOptions{Bytes: true}))(t)
}
