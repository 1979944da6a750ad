package instance

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"sluice/backup"
	"sluice/blob"
	"sluice/bytestore/localfs"
	"sluice/internal/vfs"
	"sluice/storage"
	"sluice/test/fault"
	"sluice/test/testenv"
	"sluice/test/vfstest"
)

// repositoryOn opens a repository on a file system.
func repositoryOn(t *testing.T, fsys vfs.FS) *backup.Repository {
	t.Helper()
	return &backup.Repository{Bytes: testenv.Must(localfs.Open("/backups", localfs.Options{FS: fsys}))(t)}
}

// changes are the operations that change a disk.
var changes = []vfstest.Kind{vfstest.KindWrite, vfstest.KindRename, vfstest.KindSyncAll, vfstest.KindSyncDir, vfstest.KindSync}

// TestBackupSurvivesPowerCuts ends a backup at each change on a repository's disk, by a kill or a
// power cut, and makes it again. A backup that exists is whole, even after another power cut.
func TestBackupSurvivesPowerCuts(t *testing.T) {
	t.Parallel()
	data := newSource(t)
	s := testenv.Must(storage.Open(t.Context(), storage.Location{Data: data}, storage.Options{}))(t)
	putSmall(t, blob.New(s.Meta, s.Bytes, blob.Options{}), "small", 3)
	testenv.OK(t, s.Close())
	check := func(disk *vfstest.CrashFS, at string) (backups int) {
		repo := repositoryOn(t, disk)
		for _, id := range testenv.Must(repo.List(t.Context()))(t) {
			m := testenv.Must(repo.Open(t.Context(), id))(t)
			if _, err := repo.Verify(t.Context(), m, backup.VerifyOptions{Bytes: true}); err != nil {
				t.Errorf("%s: %v", at, err)
			}
			backups++
		}
		return backups
	}
	for step := int64(1); ; step++ {
		for _, cut := range []bool{false, true} {
			at := fmt.Sprintf("step %d, power cut %v", step, cut)
			disk := vfstest.NewCrash()
			var armed atomic.Bool
			killed := &vfstest.Fault{K: step - 1, Kind: fault.Fail, Kills: true, Match: func(op vfstest.Op) bool {
				return armed.Load() && slices.Contains(changes, op.Kind)
			}}
			repo := repositoryOn(t, vfstest.Inject(disk, killed))
			armed.Store(true)
			_, err := Backup(t.Context(), Location{Data: data}, repo, BackupOptions{})
			if cut {
				disk = disk.Crash()
			}
			check(disk, at)
			if killed.Struck() {
				testenv.Is(t, err, fault.ErrFault, "%s", at)
				testenv.Must(Backup(t.Context(), Location{Data: data}, repositoryOn(t, disk), BackupOptions{}))(t)
			}
			if check(disk.Crash(), at+", again") == 0 {
				t.Fatalf("%s: there is no backup after the power cut", at)
			}
			if !killed.Struck() {
				if step < 30 {
					t.Fatalf("there were only %d steps", step)
				}
				return
			}
		}
	}
}
