package engine

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"sluice/database"
)

// health is an SQLite store's state, and the reason if it refuses writes. All its connections
// report to it.
//
// A store refuses writes until the log has been emptied (markReady). If the database is
// damaged, it refuses them for as long as it is open, while reads work. After a stop, the
// store must be opened again, which the channel stopped signals to the process.
type health struct {
	stopped chan struct{} // closed at a stop
	ready   chan struct{} // closed when the log was emptied

	reason atomic.Pointer[error] // why writes are refused; nil: they are accepted
	mu     sync.Mutex
	state  healthState
}

// healthState orders the states: a later one replaces an earlier one.
type healthState int

const (
	stateReady healthState = iota
	stateStarting
	stateCorrupt
	stateStopped
)

// errNotReady is the reason before the log has been emptied.
var errNotReady = fmt.Errorf("sqlstore: the log has not been emptied yet: %w", database.ErrUnavailable)

func newHealth() *health {
	h := &health{stopped: make(chan struct{}), ready: make(chan struct{}), state: stateStarting}
	h.reason.Store(&errNotReady)
	return h
}

// err returns the reason why writes are refused, or nil if they are accepted.
func (h *health) err() error {
	if why := h.reason.Load(); why != nil {
		return *why
	}
	return nil
}

func (h *health) set(g healthState, err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if g < h.state || (g == h.state && g != stateStarting) {
		return false
	}
	h.state = g
	h.reason.Store(&err)
	return true
}

// observe records an error of any statement, of class f, and reports whether it makes the
// store refuse writes.
func (h *health) observe(f errorClass, err error) bool {
	switch f {
	case classCorrupt:
		h.set(stateCorrupt, fmt.Errorf("%w: %w", ErrCorrupt, err))
	case classIO:
		h.stop(err)
	default:
		return false
	}
	return true
}

// stop makes the store refuse writes after an error that leaves the disk's contents unknown: after
// a failed sync, a second one that succeeds proves nothing.
func (h *health) stop(cause error) {
	if h.set(stateStopped, fmt.Errorf("%w: %w", ErrStopped, cause)) {
		close(h.stopped)
	}
}

// notReady records the reason why the log could not be emptied.
func (h *health) notReady(f errorClass, cause error) {
	err := translate(f, cause)
	if !errors.Is(err, database.ErrNoSpace) {
		err = fmt.Errorf("%w: %w", errNotReady, cause)
	}
	h.set(stateStarting, err)
}

func (h *health) isStarting() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state == stateStarting
}

// markReady makes the store accept writes.
func (h *health) markReady() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == stateStarting {
		h.state = stateReady
		h.reason.Store(nil)
		close(h.ready)
	}
}
