package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestBackupOnAFullDisk makes backups where space is short.
func TestBackupOnAFullDisk(t *testing.T) {
	t.Run("target", backupToAFullDisk)
	t.Run("source", backupOfAFullDisk)
}

// backupToAFullDisk fills the disk of a place. The command must fail and report why, and succeed
// when there is space again.
func backupToAFullDisk(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	const blobs, size = 40, 300 << 10
	for i := range blobs {
		s.Must(204, "PUT", e2e.BlobTarget("0x1", fmt.Sprint(i)), e2e.Content(uint64(i), size))
	}
	place := tmpfs(t, "64m")
	disk := filepath.Dir(place)
	filler := filepath.Join(disk, "filler")
	fails := func(when string) {
		t.Helper()
		r := e2e.StartBackup(t, nil, place, "--data", s.Data, "--quiet").Wait()
		if r.Code != 1 || !strings.Contains(r.Stderr, "no space left") || strings.Count(r.Stderr, "\n") != 1 {
			t.Errorf("%s: %+v", when, r)
		}
	}
	fillDisk(t, disk)
	fails("without any space")
	testenv.OK(t, os.Truncate(filler, 58<<20))
	fails("with space for a part")
	had := e2e.StoredObjects(t, place)
	fails("again")
	if had == 0 || had >= blobs {
		t.Errorf("%d objects of %d were stored", had, blobs)
	}
	if r := e2e.SluiceRuns(t, "backup", "ls", place); r.Code != 0 || strings.TrimSpace(r.Stdout) != "" {
		t.Errorf("ls: %+v", r)
	}
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "meanwhile"), nil)
	testenv.OK(t, os.Remove(filler))
	if r := e2e.StartBackup(t, nil, place, "--data", s.Data).Wait(); r.Code != 0 {
		t.Fatalf("with space: %+v", r)
	}
	to := filepath.Join(t.TempDir(), "restored")
	e2e.Restored(t, nil, place, "--to", to)
	if found := e2e.CheckClean(t, nil, "--data", to); found.Objects != blobs {
		t.Errorf("restored were %+v", found)
	}
}

// backupOfAFullDisk fills the disk of a server while a backup runs. Deletes must make space, and
// the backup must have everything that the server has afterwards.
func backupOfAFullDisk(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Data: tmpfs(t, "64m"), Flags: []string{"--garbage-grace", "0s"}})
	const size = 1 << 20
	target := func(i int) string { return e2e.BlobTarget("0x1", fmt.Sprint(i)) }
	stored := map[string][]byte{}
	put := func(i int) int {
		t.Helper()
		data := e2e.Content(uint64(i), size)
		r := s.Do("PUT", target(i), data)
		switch r.Status {
		case 204:
			stored[target(i)] = data
		default:
			e2e.CheckProblem(t, r, 507, "storage_full")
		}
		return r.Status
	}
	blobs := 0
	for put(blobs) == 204 {
		blobs++
	}
	s.Must(204, "DELETE", target(blobs-1), nil) // the backup's hold needs a little space
	delete(stored, target(blobs-1))

	place := filepath.Join(t.TempDir(), "place")
	backup := e2e.StartBackup(t, nil, place, "--data", s.Data, "--max-rate", "4MiB")
	s.Eventually("no object is stored", func() bool { return e2e.StoredObjects(t, place) > 0 || !backup.Runs() })
	deleted, added := 0, blobs
	for deleted < blobs/2 {
		if put(added) == 204 {
			added++
			continue
		}
		s.Must(204, "DELETE", target(deleted), nil)
		delete(stored, target(deleted))
		deleted++
	}
	if !backup.Runs() {
		t.Errorf("the backup ended before space was short: %+v", backup.Wait())
	}
	if added < blobs+deleted/2 {
		t.Errorf("%d deletes of %d bytes made space for %d blobs only", deleted, size, added-blobs)
	}
	r := backup.Wait()
	if r.Code != 0 || !strings.Contains(r.Stderr, "beginning again with another snapshot: objects that were freed meanwhile") {
		t.Fatalf("the backup: %+v", r)
	}
	t.Logf("%d blobs, %d deleted, %d added: %s", blobs, deleted, added-blobs, r.Stderr)
	to := filepath.Join(t.TempDir(), "restored")
	e2e.Restored(t, nil, place, "--to", to)
	e2e.CheckClean(t, nil, "--data", to)
	restored := e2e.Start(t, e2e.Options{Data: to})
	if got := restored.Names("0x1"); len(got) != len(stored) {
		t.Errorf("restored were %d blobs, want %d", len(got), len(stored))
	}
	for target, data := range stored {
		restored.Holds(target, data)
	}
}
