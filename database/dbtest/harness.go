package dbtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sluice/database/whole"
	"sluice/test/testclock"
)

// Handle is an open store.
type Handle interface {
	whole.Database
	Close() error
}

// NewHarness returns a harness. Each call of open must return another handle, which uses clock, on
// the same data. The data must be empty at first and must outlive the handles.
func NewHarness(clock *testclock.Clock, open func() (Handle, error)) *Harness {
	return &Harness{Clock: clock, open: open}
}

// Harness provides the store for one check. It must be created by NewHarness.
type Harness struct {
	// Clock is the clock of every handle.
	Clock *testclock.Clock
	// AdvanceEngine advances the engine's own clock, by which leases are judged. That clock
	// must show the time of Clock at first. It is nil if the engine uses Clock.
	AdvanceEngine func(d time.Duration) error

	open func() (Handle, error)
	mu   struct {
		sync.Mutex
		handles []Handle
	}
}

// Open returns another handle on the same data, which the harness closes. Several may be open.
func (h *Harness) Open() (whole.Database, error) {
	s, err := h.open()
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.handles = append(h.mu.handles, s)
	return s, nil
}

// Close closes all open handles, so that a later Open sees only durable rows.
func (h *Harness) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var errs []error
	for _, s := range h.mu.handles {
		errs = append(errs, s.Close())
	}
	h.mu.handles = nil
	return errors.Join(errs...)
}

// Check verifies one aspect of the contract. Its Run is called with an empty store's harness,
// and returns nil or an error that describes how the store violates the contract.
type Check struct {
	Name string
	Run  func(ctx context.Context, h *Harness) error
}
