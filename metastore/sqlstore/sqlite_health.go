package sqlstore

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"sluice/metastore"
)

// health is the reason why a SQLite store takes no writes. All connections of
// the store report to it.
//
// A store begins without writes, until its start has emptied the log (settle).
// Damage ends them for as long as the store is open, while reads go on. After a
// stop only opening the store anew helps, which over says to the process.
type health struct {
	stopped chan struct{} // closed at a stop
	ready   chan struct{} // closed when the log was emptied

	why   atomic.Pointer[error] // nil while writes are taken
	mu    sync.Mutex
	state healthState // of why
}

// grade orders the reasons: one replaces those below it.
type healthState int

const (
	stateReady healthState = iota
	stateStarting
	stateCorrupt
	stateStopped
)

// errUnsettled is the reason at the beginning.
var errNotReady = fmt.Errorf("sqlstore: the log was not emptied yet: %w", metastore.ErrUnavailable)

func newHealth() *health {
	h := &health{stopped: make(chan struct{}), ready: make(chan struct{}), state: stateStarting}
	h.why.Store(&errNotReady)
	return h
}

// err is the reason why no writes are taken, or nil.
func (h *health) err() error {
	if why := h.why.Load(); why != nil {
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
	h.why.Store(&err)
	return true
}

// note looks at an error of SQLite, from whatever statement, and reports whether
// it ended the writes.
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

// stop ends the writes after an error that leaves it open what the disk holds:
// after a failed sync a second one that succeeds proves nothing.
func (h *health) stop(cause error) {
	if h.set(stateStopped, fmt.Errorf("%w: %w", ErrStopped, cause)) {
		close(h.stopped)
	}
}

// unsettled keeps the reason why the log could not be emptied.
func (h *health) notReady(f errorClass, cause error) {
	err := translate(f, cause)
	if !errors.Is(err, metastore.ErrNoSpace) {
		err = fmt.Errorf("%w: %w", errNotReady, cause)
	}
	h.set(stateStarting, err)
}

func (h *health) isStarting() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state == stateStarting
}

// settle lets writes begin.
func (h *health) markReady() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == stateStarting {
		h.state = stateReady
		h.why.Store(nil)
		close(h.ready)
	}
}
