package localfs_test

import (
	"path/filepath"
	"testing"

	"sluice/bytestore"
	"sluice/bytestore/localfs"
	"sluice/test/testenv"
	"sluice/test/vfstest"
)

// TestReaderBesideAnotherStart opens a reader after a store was killed. The next store replays the
// journal and begins one of its own, which the reader must not take for the one that it knows.
// Invariant 113.
func TestReaderBesideAnotherStart(t *testing.T) {
	disk := vfstest.NewCrash()
	first := journaling(t, disk)
	objects := map[bytestore.Name][]byte{newName(): body[:5_000], newName(): body[5_000:5_001]}
	for name, data := range objects {
		testenv.OK(t, put(t, first, name, data))
	}
	old := segments(t, disk)
	r := testenv.Must(localfs.OpenReader("/objects", localfs.Options{FS: disk}))(t)
	next := journaling(t, disk)
	testenv.OK(t, put(t, next, newName(), body[100_000:200_000]))
	now := segments(t, disk)
	for name := range now {
		if _, returned := old[name]; returned || len(now) != 1 {
			t.Errorf("the journal %v has a name of the one before, %v", now, old)
		}
	}
	readsBack(t, 0, "the reader", r, objects)
}

// TestReaderLooksAgain reads an object while a start on a full disk replaces its file by the
// journal's bytes, at the moment at which there is no file. The reader was opened before the
// journal was begun.
// Invariant 113.
func TestReaderLooksAgain(t *testing.T) {
	disk := vfstest.NewCrash()
	disk.Limit(1<<40, 0)
	first := journaling(t, disk)
	r := testenv.Must(localfs.OpenReader("/objects", localfs.Options{FS: disk}))(t)
	name := newName()
	object := map[bytestore.Name][]byte{name: body[:100_000]}
	testenv.OK(t, put(t, first, name, object[name]))
	space := testenv.Must(disk.Space("/"))(t)
	disk.Limit(space.Size-space.Free, 0)
	removed := 0
	next := testenv.Must(localfs.Open("/objects", localfs.Options{Reserve: -1, FS: vfstest.Intercept(disk, func(op *vfstest.Op, do func() error) error {
		err := do()
		if op.Kind == vfstest.KindRemove && filepath.Base(op.Name) == string(name) {
			removed++
			readsBack(t, 0, "a reader without the file", r, object)
		}
		return err
	})}))(t)
	testenv.Equal(t, removed, 1, "removals of the file")
	readsBack(t, 0, "the reader in the end", r, object)
	testenv.OK(t, next.Close())
}

// TestListBesideAReplay lists the objects while a store replays the journal, right after a folder
// was read. No object is left out.
// Invariant 113.
func TestListBesideAReplay(t *testing.T) {
	for _, folder := range []string{"/objects", "the object's"} {
		disk := vfstest.NewCrash()
		name := newName()
		testenv.OK(t, put(t, journaling(t, disk), name, body[:5_000]))
		if folder != "/objects" {
			folder = "/objects/" + string(name[:2])
		}
		cut := disk.Crash() // without the object's own file
		replayed := 0
		r := testenv.Must(localfs.OpenReader("/objects", localfs.Options{FS: vfstest.Intercept(cut, func(op *vfstest.Op, do func() error) error {
			err := do()
			if op.Kind == vfstest.KindReadDir && op.Name == folder && replayed == 0 {
				replayed++
				testenv.OK(t, journaling(t, cut).Close())
			}
			return err
		})}))(t)
		listed := 0
		testenv.OK(t, r.List(t.Context(), "", func(bytestore.Object) error { listed++; return nil }))
		testenv.Equal(t, listed, 1, "objects that are listed, with a replay after %s was read", folder)
		testenv.Equal(t, replayed, 1, "replays")
	}
}
