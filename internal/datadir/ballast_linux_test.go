package datadir

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"sluice/test/testenv"
)

// TestBallastOnAFullDisk checks that a disk, or a quota, which is fuller than it seems is no error
// of Restore: a server's start must not depend on it.
func TestBallastOnAFullDisk(t *testing.T) {
	testenv.Require(t, testenv.RootMount)
	disk := t.TempDir()
	testenv.OK(t, testenv.MountTmpfs(disk, "4m"))
	t.Cleanup(func() {
		testenv.Check(t, testenv.Unmount(disk))
	})
	d := testenv.Must(Open(filepath.Join(disk, "data")))(t)
	defer func() { testenv.Check(t, d.Close()) }()
	b := d.Ballast(func(int64) error { return nil })
	testenv.Is(t, b.Restore(), nil, "Restore")
	_, err := os.Stat(d.Path(ballastFile))
	testenv.Is(t, err, fs.ErrNotExist, "a part of the ballast, which would use up the disk")
}
