package e2e

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Sharers are clients that store, copy, move and delete blobs, so that many names have the same
// contents. Each writes names of its own, in two accounts, and copies from all names. They check
// every response, and after a kill that each request without a response has had its effect
// completely or not at all.
type Sharers struct {
	sharing
	all  []*sharer
	done atomic.Int64
	lost []window // of the requests without a response
}

// window is the time from a request until its server was killed.
type window struct{ begun, killed time.Time }

// NewSharers returns sharers without blobs. The seed determines their requests.
func NewSharers(t testing.TB, seed uint64, nodes []*Server) *Sharers {
	s := &Sharers{sharing: sharing{T: t, Nodes: nodes}}
	for i := range sharerCount {
		s.all = append(s.all, &sharer{sharing: &s.sharing, number: i, random: rand.New(rand.NewPCG(seed, uint64(i))), names: map[string]held{}})
	}
	return s
}

// Run has all sharers send requests until count more have had a response, or until stop is closed.
// A request may be without a response only after that.
func (s *Sharers) Run(count int64, stop <-chan struct{}) {
	s.T.Helper()
	end := s.done.Load() + count
	var running sync.WaitGroup
	for _, a := range s.all {
		running.Go(func() {
			for s.done.Load() < end && !closed(stop) && !s.T.Failed() {
				if err := a.step(); err != nil {
					if !closed(stop) {
						s.T.Errorf("sharer %d: %v", a.number, err)
					}
					return
				}
				s.done.Add(1)
			}
		})
	}
	running.Wait()
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// RunAndKill has all sharers send requests, kills a node while they do, calls restart, and checks
// the effects of requests without a response. The node is killed after a random number of requests,
// count on average.
func (s *Sharers) RunAndKill(random *rand.Rand, count int64, node *Server, restart func()) {
	s.T.Helper()
	stop, over := make(chan struct{}), make(chan struct{})
	s.Run(random.Int64N(2*count), nil)
	go func() {
		defer close(over)
		s.Run(1<<40, stop)
	}()
	time.Sleep(time.Duration(random.Int64N(int64(50 * time.Millisecond))))
	close(stop)
	node.Kill()
	<-over
	killed := time.Now()
	Client.CloseIdleConnections()
	restart()
	s.resolve(killed)
	s.each((*sharer).read)
	if s.T.Failed() {
		s.T.FailNow()
	}
}

// resolve finds out the effects of requests without a response, after all nodes are up again.
func (s *Sharers) resolve(killed time.Time) {
	s.T.Helper()
	for _, a := range s.all {
		if a.open != nil {
			s.lost = append(s.lost, window{a.begun, killed})
			a.resolve(a.open)
			a.open = nil
		}
	}
}

// Delete reads every byte of every blob, and deletes all blobs and the uploads that were begun.
func (s *Sharers) Delete() {
	s.T.Helper()
	names := map[string]int{} // by their ETags
	for _, a := range s.all {
		for _, have := range a.names {
			names[have.etag]++
		}
	}
	delete(names, "")
	most := slices.Max(append(slices.Collect(maps.Values(names)), 0))
	s.T.Logf("%d requests, %d without a response, %d repeated, at most %d names with one content", s.done.Load(), len(s.lost), s.repeats, most)
	s.each((*sharer).read)
	s.each((*sharer).remove)
	on := s.Nodes[0]
	for i := range 2 * sharerCount {
		for _, id := range on.OpenUploads(sharerAccount(i/2, i%2)) {
			on.Must(204, "DELETE", "/v1/multipart-uploads/"+id, nil)
		}
	}
}

// each does something with each sharer's names.
func (s *Sharers) each(do func(a *sharer, target string) error) {
	s.T.Helper()
	var all sync.WaitGroup
	for _, a := range s.all {
		all.Go(func() {
			for target := range a.names {
				if err := do(a, target); err != nil {
					s.T.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// NoObjectIsLeft waits until the bytes' folder has no objects but those that killed requests
// wrote, which are for the sweep.
func (s *Sharers) NoObjectIsLeft(folder string) {
	s.T.Helper()
	var orphans, others int
	await(s.T, func() bool {
		orphans, others = s.objectsIn(folder)
		return others == 0
	}, func() string { return fmt.Sprintf("%d objects are left after everything was deleted", others) })
	s.T.Logf("%d objects of killed requests are left", orphans)
}

// objectsIn counts the objects in a folder: those that were written while a request without a
// response ran, and the rest.
func (s *Sharers) objectsIn(folder string) (orphans, others int) {
	s.T.Helper()
	const tick = 10 * time.Millisecond
	eachFile(s.T, folder, func(_ string, info fs.FileInfo) {
		if strings.HasPrefix(info.Name(), "sluice") {
			return // the server's own files have this prefix
		}
		during := func(w window) bool {
			// The file system's clock may be late by a tick, and a store may write after the kill.
			return info.ModTime().After(w.begun.Add(-tick)) && info.ModTime().Before(w.killed.Add(time.Second))
		}
		if slices.ContainsFunc(s.lost, during) {
			orphans++
		} else {
			others++
		}
	})
	return orphans, others
}
