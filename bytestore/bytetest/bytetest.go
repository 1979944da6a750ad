// Package bytetest is the conformance suite of bytestore.Store.
//
// An implementation's test calls Run with a function that returns a [Harness] for an empty store.
// The checks return errors instead of failing a test, so that they can themselves be tested on
// stores that violate the contract.
package bytetest

import (
	"slices"
	"testing"
)

// Checks returns all checks. The first one that fails is usually the most informative.
func Checks() []Check {
	return slices.Concat(putChecks, sourceChecks(), raceChecks, openChecks, deleteChecks, listChecks, crashChecks())
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
