package faults

import (
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestFirstStartKilled kills first starts at random moments, both before and after anything was
// printed. The next start on the same folder must work.
// Invariant 11.
func TestFirstStartKilled(t *testing.T) {
	random := rand.New(rand.NewPCG(e2e.Seed(t), 1))
	for range 15 {
		data := filepath.Join(t.TempDir(), "data")
		first := exec.Command(e2e.Sluice, "serve", "--addr", "127.0.0.1:0", "--data", data)
		testenv.OK(t, first.Start())
		timer := time.AfterFunc(time.Duration(random.Int64N(int64(60*time.Millisecond))), func() {
			if err := first.Process.Kill(); err != nil {
				t.Error(err)
			}
		})
		if err := first.Wait(); err == nil {
			t.Fatal("a killed server exited successfully")
		}
		timer.Stop()
		s := e2e.Start(t, e2e.Options{Data: data})
		s.Session()
		s.Stop()
	}
}
