//go:build unix

package localfs_test

import (
	"errors"
	"syscall"
	"testing"

	"sluice/bytestore"
	"sluice/internal/vfs"
	"sluice/test/testenv"
	"sluice/test/vfstest"
)

// TestTooManyFilesAtFolderSync makes the kernel refuse a descriptor for the folder. Only the Put
// that needed it may fail.
func TestTooManyFilesAtFolderSync(t *testing.T) {
	armed := false
	dir := testenv.MemoryDir(t)
	s := mustOpen(t, vfstest.Intercept(vfs.OS(), func(op *vfstest.Op, do func() error) error {
		if !armed || op.Kind != vfstest.KindSyncDir {
			return do()
		}
		var before syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			return err
		}
		none := before
		none.Cur = 0
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
			return err
		}
		return errors.Join(do(), syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before))
	}), dir)
	armed = true
	err := put(t, s, newName(), body)
	armed = false
	wantErr(t, err, bytestore.ErrOverloaded)
	wantErr(t, err, syscall.EMFILE)
	wantErr(t, s.Err(), nil)
	noFiles(t, vfs.OS(), dir)
	wantErr(t, put(t, s, newName(), body), nil)
}
