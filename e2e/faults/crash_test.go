package faults

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/internal/vfs"
	"sluice/test/testenv"
)

// TestCrashLoop kills the server repeatedly at random moments under mixed load, on the same data.
// After each start every acknowledged blob must be complete, no other blob may be torn, deletes
// must hold, and each session's count must lie between the acknowledged and the issued uses.
// Invariant 2.
func TestCrashLoop(t *testing.T) {
	const crashes = 8
	crashLoop(t, e2e.Options{}, func(done int) bool { return done < crashes })
}

// TestCrashLoopOnADisk is TestCrashLoop where objects are in the journal when the server is killed.
func TestCrashLoopOnADisk(t *testing.T) {
	dir := t.TempDir()
	_, err := vfs.OS().Whole(dir)
	const crashes = 5
	segments := crashLoop(t, e2e.Options{Data: filepath.Join(dir, "data")}, func(done int) bool { return done < crashes })
	t.Logf("%d segments were left by %d kills", segments, crashes)
	if err == nil && segments == 0 {
		t.Error("no kill has left a journal: the test shows nothing")
	}
}

// crashLoop kills the server while goOn returns true; it is called with the number of kills. It
// returns how many journal segments the kills left.
func crashLoop(t *testing.T, o e2e.Options, goOn func(done int) bool) (segments int) {
	t.Helper()
	seed := e2e.Seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	o.Dirty = true
	s := e2e.Start(t, o)
	writers := make([]*e2e.Writer, e2e.CrashWriters)
	for i := range writers {
		w := &e2e.Writer{
			Account: fmt.Sprint("writer-", i),
			Random:  rand.New(rand.NewPCG(seed, uint64(i+1))),
			Names:   map[string]*e2e.Expectation{},
		}
		for n := range e2e.CrashNames {
			w.Names[fmt.Sprint("name ", n)] = &e2e.Expectation{}
		}
		writers[i] = w
	}
	var counters []*e2e.Counter
	var requests atomic.Int64
	crashes := 0
	for ; goOn(crashes); crashes++ {
		c := &e2e.Counter{ID: s.Session()}
		counters = append(counters, c)
		crashUnderLoad(s, writers, c, &requests, random)
		left, err := filepath.Glob(filepath.Join(s.Data, "bytes", ".journal-*"))
		testenv.OK(t, err)
		segments += len(left)
		s.Restart()
		for _, w := range writers {
			w.Verify(s)
		}
		for _, c := range counters {
			c.Verify(s)
		}
		if t.Failed() {
			t.Fatalf("after crash %d", crashes+1)
		}
	}
	t.Logf("%d crashes, %d acknowledged requests", crashes, requests.Load())
	if requests.Load() < int64(10*crashes) {
		t.Errorf("the load was too small to be meaningful: %d requests", requests.Load())
	}
	return segments
}

// crashUnderLoad runs the writers and two users of the session until the server has acknowledged a
// random number of requests, and for a random time after that. It then kills the server and waits
// until all of them have noticed.
func crashUnderLoad(s *e2e.Server, writers []*e2e.Writer, c *e2e.Counter, requests *atomic.Int64, random *rand.Rand) {
	s.T.Helper()
	var killed atomic.Bool
	left := atomic.Int64{}
	left.Store(1 + random.Int64N(150))
	delay := time.Duration(random.Int64N(int64(8 * time.Millisecond)))
	kill := make(chan struct{})
	acknowledge := func() {
		requests.Add(1)
		if left.Add(-1) == 0 {
			time.AfterFunc(delay, func() {
				killed.Store(true)
				close(kill)
			})
		}
	}
	var load sync.WaitGroup
	for _, w := range writers {
		load.Go(func() { w.Run(s, &killed, acknowledge) })
	}
	for range 2 {
		load.Go(func() { c.Run(s, &killed, acknowledge) })
	}
	over := make(chan struct{})
	go func() {
		load.Wait()
		close(over)
	}()
	select {
	case <-kill:
	case <-over: // each of them had a failure and reported it
	}
	s.Kill()
	<-over
	// The test must not use the connections to the dead process again.
	e2e.Client.CloseIdleConnections()
}

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
