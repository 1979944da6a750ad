package instance

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/bytestore"
	"sluice/bytestore/localfs"
	"sluice/internal/datadir"
	"sluice/storage"
	"sluice/test/testenv"
	"sluice/test/vfstest"
)

// leaveJournal puts a journal with a folder's small objects into its bytes, as a process does that
// is killed, and returns the journal's path and the objects in their order.
func leaveJournal(t *testing.T, data string) (path string, objects []string) {
	t.Helper()
	disk, ended := vfstest.NewCrash(), make(chan struct{})
	s := testenv.Must(localfs.Open("/objects", localfs.Options{Journal: true, Reserve: -1, FS: vfstest.Intercept(disk, func(op *vfstest.Op, do func() error) error {
		if op.Kind == vfstest.KindSyncAll {
			<-ended // the journal stays
		}
		return do()
	})}))(t)
	t.Cleanup(func() {
		close(ended)
		testenv.Check(t, s.Close())
	})
	for _, file := range objectFiles(t, data) {
		if content := testenv.Must(os.ReadFile(file))(t); len(content) < 100_000 {
			objects = append(objects, file)
			testenv.OK(t, s.Put(t.Context(), bytestore.Name(filepath.Base(file)), bytes.NewReader(content), int64(len(content))))
		}
	}
	name := vfstest.Names(t, disk, "/objects")[0]
	path = filepath.Join(data, datadir.Bytes, name)
	testenv.OK(t, os.WriteFile(path, []byte(vfstest.Read(t, disk, "/objects/"+name)), 0o600))
	return path, objects
}

// TestDamagedJournal flips a bit in a journal that was left behind, after a power failure without
// two files of objects. A check names the damage; a start names it too, replays the records
// behind it, and keeps the journal; and then a check names it until the file is removed.
// Invariant 115.
func TestDamagedJournal(t *testing.T) {
	data := newSource(t)
	journal, objects := leaveJournal(t, data)
	if len(objects) != 4 {
		t.Fatalf("%d objects are small", len(objects))
	}
	testenv.OK(t, errors.Join(os.Remove(objects[1]), os.Remove(objects[3])))
	testenv.Equal(t, checkAll(t, data).Found, 0, "findings in a whole journal")
	info := testenv.Must(os.Stat(objects[0]))(t)
	second := info.Size() + 20 + int64(len(filepath.Base(objects[0])))
	testenv.OK(t, flip(journal, second+9))

	says := func(when string, phrase string) {
		t.Helper()
		found := checkAll(t, data)
		told := slices.ContainsFunc(found.Findings, func(f Finding) bool { return f.Kind == DamagedFile && strings.Contains(f.Text, phrase) })
		lost := slices.ContainsFunc(found.Findings, func(f Finding) bool { return strings.Contains(f.Text, filepath.Base(objects[1])+" of") })
		if !told || !lost || found.Found != 3 { // the third is the blob
			t.Errorf("%s: %+v, want %q", when, found.Findings, phrase)
		}
	}
	damage := fmt.Sprintf("%s is damaged at byte %d; a start replays the 2 whole records behind that", journal, second)
	says("before a start", damage)
	s := testenv.Must(storage.Open(t.Context(), Location{Data: data}, storage.Options{}))(t)
	if len(s.Damage) != 1 || !strings.Contains(s.Damage[0], damage) {
		t.Errorf("the start: %q", s.Damage)
	}
	testenv.OK(t, s.Close())
	kept := filepath.Join(filepath.Dir(journal), ".damaged-"+filepath.Base(journal)[1:])
	says("after the start", kept+" is a damaged journal that a start has kept")
	testenv.OK(t, os.Remove(kept))
	testenv.Equal(t, checkAll(t, data).Found, 2, "findings without the kept file")
	if s = testenv.Must(storage.Open(t.Context(), Location{Data: data}, storage.Options{}))(t); len(s.Damage) > 0 {
		t.Errorf("the next start: %q", s.Damage)
	}
	testenv.OK(t, s.Close())
}
