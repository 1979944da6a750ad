//go:build long

package commands

import (
	"math/rand/v2"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestRootsOfThePublicClientLong compares the roots of files of random sizes, 200 at a time, for an
// hour (SLUICE_TEST_LONG).
// Invariant 221.
func TestRootsOfThePublicClientLong(t *testing.T) {
	testenv.Require(t, testenv.NPM)
	rng := rand.New(rand.NewPCG(e2e.Seed(t), 0))
	for end := time.Now().Add(testenv.LongDuration(t)); ; {
		compareRoots(t, rng, 200)
		if t.Failed() || time.Now().After(end) {
			return
		}
	}
}
