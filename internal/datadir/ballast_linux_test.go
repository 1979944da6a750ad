package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"sluice/internal/testenv"
)

// TestBallastOnAFullDisk checks that a disk, or a quota, which is fuller than it seems is no error
// of Restore: a server's start must not depend on it.
func TestBallastOnAFullDisk(t *testing.T) {
	testenv.Require(t, testenv.RootMount)
	disk := t.TempDir()
	testenv.OK(t, testenv.MountTmpfs(disk, "4m"))
	t.Cleanup(func() {
		if err := testenv.Unmount(disk); err != nil {
			t.Error(err)
		}
	})
	d, err := Open(filepath.Join(disk, "data"))
	testenv.OK(t, err)
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	b := d.Ballast(func(int64) error { return nil })
	if err := b.Restore(); err != nil {
		t.Errorf("Restore returns %v", err)
	}
	if _, err := os.Stat(d.Path(ballastFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a part of the ballast uses up the disk: %v", err)
	}
}
