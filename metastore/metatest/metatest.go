// Package metatest is the conformance suite that every implementation of metastore.Store must
// pass, and a set of benchmarks. An implementation calls Run in a test.
//
// A Check returns an error and takes no *testing.T, so that the suite itself can be tested with
// stores that are broken on purpose.
package metatest

import (
	"errors"
	"testing"
)

// Checks returns all checks.
func Checks() []Check {
	var all []Check
	for _, group := range [][]Check{
		blobChecks(), openBlobChecks(), nameChecks(), listChecks(), uploadChecks(), uploadRaceChecks(), sessionChecks(),
		idempotencyChecks(), channelChecks(), paymentChecks(), paymentRaceChecks(), settlementChecks(), submissionChecks(), readingChecks(), renewalChecks(), chargeChecks(),
		keyChecks(), usageChecks(), usageRaceChecks(), accountChecks(), inspectionChecks(), garbageChecks(), purgeChecks(), censusChecks(), foldChecks(), propertyChecks(), leaseChecks(), nodeChecks(), clockChecks(), patienceChecks(), modelChecks(),
	} {
		all = append(all, group...)
	}
	return all
}

// Run runs every check as a subtest, each with a new harness.
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
