// Package tick implements one timer for many goroutines that wait a while for something that nearly
// always happens earlier. A timer for each would cost more than the rest of the wait.
package tick

import (
	"sync"
	"time"
)

// Shared is a timer that runs only while something waits for it. Its zero value must not be used. Its
// methods may be called concurrently.
type Shared struct {
	every time.Duration

	mu   sync.Mutex
	next chan struct{} // closed at the next tick; nil: nothing has waited since the last one
}

// Every returns a Shared that ticks every d, which must be positive.
func Every(d time.Duration) *Shared { return &Shared{every: d} }

// Next returns a channel that is closed at the next tick, at most one period later.
func (s *Shared) Next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = make(chan struct{})
		time.AfterFunc(s.every, s.fire)
	}
	return s.next
}

func (s *Shared) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.next)
	s.next = nil
}
