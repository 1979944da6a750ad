package localfs

import (
	"sluice/bytestore/localfs/internal/groups"
	"sluice/internal/vfs"
)

// folder is a folder of objects that share its fsync. A caller of sync joins the next fsync and
// never the running one, which may have begun before the caller's entry was made.
type folder struct {
	fs      vfs.FS
	path    string
	mapSync func(error) error // maps an fsync's error to a Put's
	syncs   groups.Group[struct{}]
}

func newFolder(fsys vfs.FS, path string, mapSync func(error) error) *folder {
	return &folder{fs: fsys, path: path, mapSync: mapSync}
}

// sync returns nil once the folder's entries, as they were at the call, survive a power failure.
func (f *folder) sync() error {
	return f.syncs.Do(struct{}{}, func([]struct{}) error {
		if err := f.fs.SyncDir(f.path); err != nil {
			return f.mapSync(err) // before the next fsync begins, which must see it
		}
		return nil
	})
}
