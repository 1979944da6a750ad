package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestDamagedBodyHeals flips bits in a small blob in the database, and in a locked version that a
// deletion has left. A read is refused before its first byte, and the damage is listed and counted.
// With the place of a backup the server heals both.
// Invariants 118, 216.
func TestDamagedBodyHeals(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Dirty: true, Damaged: true, Flags: []string{"--admin-addr", "127.0.0.1:0"}})
	small, other := e2e.BlobTarget("0x1", "small"), e2e.BlobTarget("0x1", "other")
	body := e2e.Content(1, 10_000)
	s.Must(204, "PUT", small, body)
	s.Must(204, "PUT", other, body[:5000])
	s.Must(200, "PUT", "/v1/admin/versions/team", []byte(`{"keep":"on","locks":{}}`), "If-Match", "*")
	id := s.Must(204, "PUT", e2e.BlobTarget("team", "kept"), body, "Blob-Hold", "true").Header.Get("Blob-Version")
	s.Must(204, "DELETE", e2e.BlobTarget("team", "kept"), nil)
	kept := e2e.VersionTarget("team", id, "kept")
	place := filepath.Join(t.TempDir(), "backups")
	if r := e2e.StartBackup(t, nil, place, "--data", s.Data).Wait(); r.Code != 0 {
		t.Fatalf("backup: %+v", r)
	}
	s.Stop()
	e2e.Execute(t, s.Data, `UPDATE bodies SET body = CAST(substr(body, 1, 7000) || x'00' || substr(body, 7002) AS BLOB) WHERE length(body) = 10000`)
	s.Launch()
	s.WantDamaged(small, kept)
	s.Holds(other, body[:5000])
	e2e.UntilDamaged(t, []string{small, kept}, "--data", s.Data)
	if r := e2e.SluiceRuns(t, "check", "--recorded", "--data", s.Data); !strings.Contains(r.Stdout, "team/kept, version "+id+": ") {
		t.Errorf("the check does not name the version %s: %+v", id, r)
	}
	s.Stop()

	s.Options.Flags = []string{"--heal-from", place}
	s.Launch()
	e2e.UntilDamaged(t, nil, "--data", s.Data)
	s.Holds(small, body)
	s.Holds(kept, body)
	s.Holds(other, body[:5000])
	e2e.CheckProblem(t, s.Do("DELETE", kept, nil), 403, "locked")
	s.Stop()
	e2e.CheckClean(t, nil, "--data", s.Data)
}

// TestLostObjectsAreNamedByTheListing removes objects from a bucket: the next listing names their
// blobs, and no scrub has read anything.
// Invariant 116.
func TestLostObjectsAreNamedByTheListing(t *testing.T) {
	t.Parallel()
	objects := testenv.S3(t, testenv.S3Options{})
	o := e2e.OnObjects(objects)
	o.Dirty, o.Damaged = true, true
	o.Tuning = e2e.Tuning{"SweepEvery": 2 * time.Second}
	o.Flags = append(o.Flags, "--admin-addr", "127.0.0.1:0")
	s := e2e.Start(t, o)
	files := map[string]string{} // by target
	body := e2e.Content(1, 100_000)
	for i := range 5 {
		before := objectFiles(t, objects.Folder())
		target := e2e.BlobTarget("0x1", fmt.Sprint("blob", i))
		s.Must(204, "PUT", target, body)
		for file := range objectFiles(t, objects.Folder()) {
			if !before[file] {
				files[target] = file
			}
		}
	}
	var lost []string
	for _, i := range []int{1, 4} {
		target := e2e.BlobTarget("0x1", fmt.Sprint("blob", i))
		testenv.OK(t, os.Remove(files[target]))
		lost = append(lost, target)
	}
	e2e.UntilDamaged(t, lost, "--data", s.Data)
	s.WantDamaged(lost...)
	for _, i := range []int{0, 2, 3} {
		s.Holds(e2e.BlobTarget("0x1", fmt.Sprint("blob", i)), body)
	}
	metrics := s.MetricsOf()
	for _, want := range []string{"\nsluice_damaged_contents 2\n", "\nsluice_scrub_read_bytes_total 0\n"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %q", want)
		}
	}
}

// objectFiles returns the files of objects in a bucket.
func objectFiles(t *testing.T, folder string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	testenv.OK(t, filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.Count(d.Name(), "-") == 2 && d.Name()[2] == '-' {
			found[path] = true
		}
		return err
	}))
	return found
}
