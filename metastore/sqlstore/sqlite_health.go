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
	over    chan struct{} // closed at a stop
	settled chan struct{} // closed when the log was emptied

	why   atomic.Pointer[error] // nil while writes are taken
	mu    sync.Mutex
	grade grade // of why
}

// grade orders the reasons: one replaces those below it.
type grade int

const (
	gradeSound grade = iota
	gradeUnsettled
	gradeCorrupt
	gradeStopped
)

// errUnsettled is the reason at the beginning.
var errUnsettled = fmt.Errorf("sqlstore: the log was not emptied yet: %w", metastore.ErrUnavailable)

func newHealth() *health {
	h := &health{over: make(chan struct{}), settled: make(chan struct{}), grade: gradeUnsettled}
	h.why.Store(&errUnsettled)
	return h
}

// err is the reason why no writes are taken, or nil.
func (h *health) err() error {
	if why := h.why.Load(); why != nil {
		return *why
	}
	return nil
}

func (h *health) set(g grade, err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if g < h.grade || (g == h.grade && g != gradeUnsettled) {
		return false
	}
	h.grade = g
	h.why.Store(&err)
	return true
}

// note looks at an error of SQLite, from whatever statement, and reports whether
// it ended the writes.
func (h *health) note(f fault, err error) bool {
	switch f {
	case faultCorrupt:
		h.set(gradeCorrupt, fmt.Errorf("%w: %w", ErrCorrupt, err))
	case faultIO:
		h.stop(err)
	default:
		return false
	}
	return true
}

// stop ends the writes after an error that leaves it open what the disk holds:
// after a failed sync a second one that succeeds proves nothing.
func (h *health) stop(cause error) {
	if h.set(gradeStopped, fmt.Errorf("%w: %w", ErrStopped, cause)) {
		close(h.over)
	}
}

// unsettled keeps the reason why the log could not be emptied.
func (h *health) unsettled(f fault, cause error) {
	err := translate(f, cause)
	if !errors.Is(err, metastore.ErrNoSpace) {
		err = fmt.Errorf("%w: %w", errUnsettled, cause)
	}
	h.set(gradeUnsettled, err)
}

func (h *health) isUnsettled() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.grade == gradeUnsettled
}

// settle lets writes begin.
func (h *health) settle() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.grade == gradeUnsettled {
		h.grade = gradeSound
		h.why.Store(nil)
		close(h.settled)
	}
}
