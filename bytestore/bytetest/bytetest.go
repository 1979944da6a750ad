// Package bytetest is the conformance suite of bytestore.Store, with benchmarks.
//
// The test of an implementation calls Run with a function that returns a [Harness] for an
// empty store. The checks return errors instead of failing a test, so that they can
// themselves be tested on stores that violate the contract.
package bytetest

import (
	"context"
	"slices"
	"testing"

	"sluice/bytestore"
)

// Harness provides a check with its store.
type Harness struct {
	// Open returns a handle of the store, which is empty at first. Each call returns
	// another handle of the same data. If an implementation permits only one handle at a
	// time, Open must close the previous one. Checks use only the latest handle.
	Open func() (bytestore.Store, error)
	// Crash simulates a power failure: what was not made durable is lost, and existing
	// handles have no further effect. It may be called during a Put, even from a read of
	// its source. The next call is Open. If Crash is nil, the checks that need it do not
	// run.
	Crash func() error
}

// Check tests one promise of the contract.
type Check struct {
	Name string
	// NeedsCrash reports whether the check uses Harness.Crash.
	NeedsCrash bool
	// Run returns nil if the store keeps the promise, and otherwise an error that
	// describes the violation. Each run needs a new harness.
	Run func(ctx context.Context, h Harness) error
}

// Checks returns all checks. The first one that fails is usually the most informative.
func Checks() []Check {
	return slices.Concat(putChecks(), sourceChecks(), raceChecks(), openChecks(), deleteChecks(), listChecks(), crashChecks())
}

// Run runs every applicable check as a subtest, each with a new harness.
func Run(t *testing.T, newHarness func(testing.TB) Harness) {
	for _, c := range Checks() {
		if c.NeedsCrash && newHarness(t).Crash == nil {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			if err := c.Run(t.Context(), newHarness(t)); err != nil {
				t.Error(err)
			}
		})
	}
}
