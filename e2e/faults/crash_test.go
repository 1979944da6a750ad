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
	"sluice/internal/testenv"
)

// TestCrashLoop kills the server repeatedly at random moments under mixed load, on the same data.
// After each start every acknowledged blob must be complete, no other blob may be torn, deletes
// must hold, and each session's count must lie between the acknowledged and the issued uses.
func TestCrashLoop(t *testing.T) {
	const crashes = 8
	crashLoop(t, func(done int) bool { return done < crashes })
}

// crashLoop kills the server while goOn says so; it is called with the number of kills.
func crashLoop(t *testing.T, goOn func(done int) bool) {
	t.Helper()
	seed := e2e.Seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	s := e2e.Start(t, e2e.Options{Dirty: true})
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
