package httpconn

import (
	"os"
	"sync"
	"time"
)

// backgroundDelay is how long a background read waits at most before it begins. Until then it is
// not noticed that a client has closed its connection.
const backgroundDelay = 100 * time.Millisecond

var backgroundTicks = &ticks{every: backgroundDelay}

// background delays a connection's background reads.
//
// While a handler runs, net/http reads one byte from the connection to learn whether the client has
// gone. When the handler has returned, it ends that read by a deadline in the past. If the handler
// waits for anything, the read costs a system call that finds nothing, and two changes to one of
// the runtime's timers. So a read of one byte, which nothing else does, waits for that deadline or
// for the next tick, and most handlers return before.
type background struct {
	mu     sync.Mutex
	waits  bool
	passed chan struct{} // receives a token when the deadline has passed during the wait
}

// await waits. It returns os.ErrDeadlineExceeded if the deadline of d has passed long ago.
func (b *background) await(d *deadline) error {
	b.mu.Lock()
	if d.hasPassed() {
		b.mu.Unlock()
		return os.ErrDeadlineExceeded
	}
	if b.waits { // a second reader does not wait
		b.mu.Unlock()
		return nil
	}
	if b.passed == nil {
		b.passed = make(chan struct{}, 1)
	}
	b.waits = true
	b.mu.Unlock()
	select {
	case <-b.passed:
		return os.ErrDeadlineExceeded
	case <-backgroundTicks.after():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.waits {
		<-b.passed
		return os.ErrDeadlineExceeded
	}
	b.waits = false
	return nil
}

// deadlineSet ends the wait if the deadline of d has passed.
func (b *background) deadlineSet(d *deadline) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waits && d.hasPassed() {
		b.waits = false
		b.passed <- struct{}{}
	}
}
