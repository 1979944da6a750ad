package ephemeral

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"sluice/test/testenv"
)

func mustCreate(t *testing.T, temporary, memory string, inMemory bool) (*Folders, []string) {
	t.Helper()
	f, removed, err := create([]string{temporary, memory}, inMemory)
	testenv.OK(t, err)
	testenv.AtEnd(t, f.Remove)
	return f, removed
}

// abandon releases the locks as the process does when it ends, and leaves the folders.
func (f *Folders) abandon(t *testing.T) {
	t.Helper()
	for _, l := range f.locked {
		testenv.OK(t, l.lock.Close())
	}
	f.locked = nil
}

func fill(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		testenv.OK(t, os.MkdirAll(filepath.Join(dir, "bytes"), 0o700))
		testenv.OK(t, os.WriteFile(filepath.Join(dir, "bytes", "object"), []byte("x"), 0o600))
	}
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries := testenv.Must(os.ReadDir(dir))(t)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// TestFoldersAreRemoved checks that Remove leaves nothing, and that Create removes the folders of a
// process that ended without Remove, and nothing else.
// Invariant 126.
func TestFoldersAreRemoved(t *testing.T) {
	temporary, memory := t.TempDir(), t.TempDir()
	living, removed := mustCreate(t, temporary, memory, true)
	if len(removed) != 0 || living.Database == "" || living.Database == living.Data {
		t.Fatalf("%+v, removed %v", living, removed)
	}
	dead, _ := mustCreate(t, temporary, memory, true)
	interrupted, _ := mustCreate(t, temporary, memory, false) // while it was created: the content does not exist
	fill(t, living.Data, living.Database, dead.Data, dead.Database)
	dead.abandon(t)
	interrupted.abandon(t)
	foreign := filepath.Join(temporary, prefix+"open")
	fill(t, foreign)
	testenv.OK(t, os.Chmod(foreign, 0o755))
	victim := filepath.Join(t.TempDir(), "victim")
	fill(t, victim)
	testenv.OK(t, os.Symlink(victim, filepath.Join(temporary, prefix+"link")))

	next, removed := mustCreate(t, temporary, memory, false) // there is not enough memory now
	want := []string{filepath.Dir(dead.Data), filepath.Dir(dead.Database), filepath.Dir(interrupted.Data)}
	slices.Sort(want)
	slices.Sort(removed)
	if !slices.Equal(removed, want) {
		t.Errorf("removed %v, want %v", removed, want)
	}
	for _, kept := range []string{living.Data, living.Database, foreign, victim} {
		if _, err := os.Stat(filepath.Join(kept, "bytes", "object")); err != nil {
			t.Errorf("a folder that is in use, or not one of these, was touched: %v", err)
		}
	}
	fill(t, next.Data)
	for _, f := range []*Folders{next, living} {
		testenv.Check(t, f.Remove())
	}
	if left := names(t, temporary); len(left) != 2 { // foreign and the link
		t.Errorf("left behind: %v", left)
	}
	if left := names(t, memory); len(left) != 0 {
		t.Errorf("left behind in memory: %v", left)
	}
}

// TestConcurrentCreates checks that processes that start concurrently get folders of their own,
// although each of them looks for abandoned ones, and that none is removed while it is in use.
// Invariant 126.
func TestConcurrentCreates(t *testing.T) {
	temporary := t.TempDir()
	var mu sync.Mutex
	var all []*Folders
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for range 100 {
				f, _, err := create([]string{temporary}, true)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				all = append(all, f)
				mu.Unlock()
			}
		})
	}
	work.Wait()
	for _, f := range all {
		if !f.locked[0].lock.Current() {
			t.Errorf("the folder %s was removed while it was in use", f.Data)
		}
		testenv.Check(t, f.Remove())
	}
	if left := names(t, temporary); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
