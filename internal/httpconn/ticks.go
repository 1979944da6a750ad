package httpconn

import (
	"sync"
	"time"
)

// ticks is one timer for many goroutines that wait a while for something that nearly always happens
// earlier. A timer for each would cost more than the remaining wait. It runs only while something
// waits for it. Its methods may be called concurrently.
type ticks struct {
	every time.Duration

	mu   sync.Mutex
	next chan struct{} // closed at the next tick; nil: nothing has waited since the last one
}

// after returns a channel that is closed at the next tick, at most one period later.
func (s *ticks) after() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = make(chan struct{})
		time.AfterFunc(s.every, s.fire)
	}
	return s.next
}

func (s *ticks) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.next)
	s.next = nil
}
