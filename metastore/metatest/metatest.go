// Package metatest holds the checks that every implementation of
// metastore.Store passes, and benchmarks of one.
//
// A Check returns an error and needs no *testing.T, so that the suite itself
// can be tested on stores that are broken on purpose.
package metatest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"sluice/internal/testclock"
	"sluice/metastore"
)

// Check is one property of a store. Run gives a harness without any data and
// returns what is wrong with the store, or nil.
type Check struct {
	Name string
	Run  func(ctx context.Context, h *Harness) error
}

// Handle is an open store.
type Handle interface {
	metastore.Store
	Close() error
}

// Harness gives a check its store. Make one with NewHarness; it serves one
// check.
type Harness struct {
	// Clock is the clock of every handle.
	Clock *testclock.Clock
	// AdvanceEngine moves the clock of an engine that has one of its own, by
	// which leases are judged. It stands where Clock does at first. Nil: Clock
	// is the engine's.
	AdvanceEngine func(d time.Duration) error

	open func() (Handle, error)
	mu   struct {
		sync.Mutex
		handles []Handle
	}
}

// NewHarness makes a harness. Each call of open gives another handle, which
// works by clock, on the same data; there is none at first, and it outlives
// the handles.
func NewHarness(clock *testclock.Clock, open func() (Handle, error)) *Harness {
	return &Harness{Clock: clock, open: open}
}

// Open gives another handle on the same data. Several may be open at once. The
// harness closes them.
func (h *Harness) Open() (metastore.Store, error) {
	s, err := h.open()
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.handles = append(h.mu.handles, s)
	return s, nil
}

// Close closes every open handle. What a later Open shows was really stored.
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

// Checks lists all checks.
func Checks() []Check {
	var all []Check
	for _, group := range [][]Check{
		blobChecks(), nameChecks(), listChecks(), uploadChecks(), uploadRaceChecks(), sessionChecks(),
		idempotencyChecks(), channelChecks(), paymentChecks(), paymentRaceChecks(), settlementChecks(), chargeChecks(),
		keyChecks(), usageChecks(), usageRaceChecks(), garbageChecks(), purgeChecks(), foldChecks(), factChecks(), leaseChecks(), nodeChecks(), clockChecks(), patienceChecks(), modelChecks(),
	} {
		all = append(all, group...)
	}
	return all
}

// Run runs every check as a subtest, each with a harness of its own.
func Run(t *testing.T, newHarness func(testing.TB) *Harness) {
	for _, c := range Checks() {
		t.Run(c.Name, func(t *testing.T) {
			h := newHarness(t)
			if err := errors.Join(c.Run(t.Context(), h), h.Close()); err != nil {
				t.Fatal(err)
			}
		})
	}
}
