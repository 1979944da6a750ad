package e2e

import (
	"sync"
)

// The memory that the process may use for the given number of hostile HTTP/2 connections.
const (
	hostileConnections = 120
	HostileMemory      = 256 << 20
)

// Hostile opens connections, runs worst on each, and returns them. It ignores worst's errors,
// because the server may close the connection.
func (s *Server) Hostile(worst func(f *Frames) error) []*Frames {
	s.T.Helper()
	all := make([]*Frames, hostileConnections)
	for i := range all {
		all[i] = s.DialFrames(0)
	}
	var work sync.WaitGroup
	for _, f := range all {
		work.Go(func() { _ = worst(f) })
	}
	work.Wait()
	return all
}
