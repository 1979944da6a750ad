package commands

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestDamagedBackupIsFound flips a byte in each kind of file that a backup has: verify finds it,
// and names the file.
func TestDamagedBackupIsFound(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	storeBelongings(s)
	place := filepath.Join(t.TempDir(), "place")
	e2e.Prints(t, "backup", place, "--data", s.Data)
	s.Stop()
	verify := func(code int) string {
		t.Helper()
		r := e2e.SluiceRuns(t, "backup", "verify", "--read-bytes", "--quiet", place)
		if r.Code != code {
			t.Errorf("verify: %+v, want exit code %d", r, code)
		}
		return r.Stderr
	}
	verify(0)
	for _, c := range []struct {
		kind, files string
	}{
		{"objects", filepath.Join("??", "??-*")},
		{"chunks", "rows-*"},
		{"packs", "pack-*"},
		{"manifests", "manifest-*"},
	} {
		t.Run(c.kind, func(t *testing.T) {
			files := testenv.Must(filepath.Glob(filepath.Join(place, c.files)))(t)
			if len(files) == 0 {
				t.Fatalf("there are no %s", c.kind)
			}
			for _, file := range files {
				whole := testenv.Must(os.ReadFile(file))(t)
				damaged := append([]byte{}, whole...)
				damaged[len(damaged)/2] ^= 1
				testenv.OK(t, os.WriteFile(file, damaged, 0o600))
				if said := verify(6); !strings.Contains(said, filepath.Base(file)) && c.kind != "objects" {
					t.Errorf("of a damaged %s verify says %s", filepath.Base(file), said)
				}
				testenv.OK(t, os.WriteFile(file, whole, 0o600))
			}
		})
	}
	verify(0)
}
