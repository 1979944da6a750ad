package faults

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"sluice/e2e"
)

// kill is a kill when a place for backups has so many of a backup's tenths.
type kill struct {
	tenths int
	server bool // or the backup command
}

// TestBackupUnderLoad makes a backup beside a server with a load of all kinds of changes, while
// both are killed repeatedly. The restored instance must have the original's state at one moment
// during the last backup.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	backupUnderLoad(t, []kill{{2, true}, {3, false}, {5, true}, {7, false}, {8, true}})
}

// backupUnderLoad kills in this order.
func backupUnderLoad(t *testing.T, kills []kill) {
	t.Helper()
	seed := e2e.Seed(t)
	// Without holds, the server would free what was replaced within a second.
	s := e2e.Start(t, e2e.Options{Dirty: true, Flags: []string{"--garbage-grace", "0s"}}.Tuned(e2e.Tuning{"PurgeEvery": time.Second}))
	// Copying these is most of the work, so their number shows how much is done.
	const kept, size = 300, 40 << 10
	s.AtOnce(kept, func(i int) (e2e.Response, error) {
		return s.Try("PUT", e2e.BlobTarget("kept", fmt.Sprint(i)), e2e.Content(uint64(i), size))
	})
	diarists := e2e.NewDiarists(t, seed, []*e2e.Server{s})
	diarists.Begin()

	place := filepath.Join(t.TempDir(), "place")
	var began time.Time
	var backup *e2e.Running
	begin := func() {
		t.Helper()
		began = time.Now()
		// The rate is so low that it takes a while.
		backup = e2e.StartBackup(t, nil, place, "--data", s.Data, "--max-rate", "2MiB")
	}
	begin()
	for _, k := range kills {
		s.Eventually(fmt.Sprintf("%d tenths are not stored", k.tenths), func() bool {
			return e2e.StoredObjects(t, place) >= kept*k.tenths/10 || !backup.Runs()
		})
		if !backup.Runs() { // the machine was too slow for this tenth
			if r := backup.Wait(); r.Code != 0 {
				t.Fatalf("the backup: %+v", r)
			}
			begin()
		}
		switch {
		case k.server:
			diarists.Kill(s, s.Restart)
		case backup.Kill():
			begin()
		}
	}
	if r := backup.Wait(); r.Code != 0 {
		t.Fatalf("the backup: %+v", r)
	}
	ended := time.Now()
	diarists.End()
	t.Logf("%d changes, %d objects are in the place: %s", diarists.Requests(), e2e.StoredObjects(t, place), backup.Log())

	if r := e2e.SluiceRuns(t, "backup", "verify", "--read-bytes", place); r.Code != 0 {
		t.Errorf("verify: %+v", r)
	}
	to := filepath.Join(t.TempDir(), "restored")
	e2e.Restored(t, nil, place, "--to", to)
	e2e.CheckClean(t, nil, "--data", to)
	restored := e2e.Start(t, e2e.Options{Data: to})
	diarists.Verify(restored, began, ended)
	for i := range kept {
		restored.Holds(e2e.BlobTarget("kept", fmt.Sprint(i)), e2e.Content(uint64(i), size))
	}
	// The original is as if there had been no backup.
	diarists.Verify(s, ended, time.Now())
	s.Stop()
	e2e.CheckClean(t, nil, "--data", s.Data)
}
