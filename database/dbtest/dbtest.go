// Package dbtest has the helpers that a database's conformance suites share, and the database's
// own suite: its past, properties, leases, nodes, tasks, its clock, patience, cancelled calls, and
// the census.
//
// Each contract has a suite: package metatest for blobs, ledgertest for money, keystest for API
// keys. They import dbtest, and never each other. An implementation passes the checks of all of
// them to Run. A Check returns an error and takes no *testing.T, so that each suite can be tested
// with stores that are broken on purpose: see Catch.
//
// # Rules that span contracts
//
// A check calls the methods of its suite's contract. These checks call more than one contract:
//
//   - usage/channels and channels/racing: a group's usage counts the channels that it opened.
//   - usage/retained: a recorded request counts to its owner.
//   - model/history: sessions and their recorded requests between blobs and uploads, with one
//     usage.
//   - purge/batches: blobs, uploads, sessions and recorded requests share a purge's limit.
//   - census/states, census/pages and properties/empty: the whole database.
//   - clock/one-time and patience/over: a blob and a session are the examples.
//   - blobs/cancelled: every kind of call with a context that has ended.
//
// The first three are in the files channels.go of ledgertest and usagemoney.go, model.go and
// modelusage.go of metatest, the rest in dbtest.
package dbtest

import (
	"errors"
	"slices"
	"testing"

	"sluice/test/testenv"
)

// Checks returns the checks of the database itself.
func Checks() []Check {
	return slices.Concat(
		historyChecks, propertyChecks, leaseChecks, nodeChecks, taskChecks, clockChecks(), patienceChecks(), censusChecks,
		[]Check{NewCheck("blobs/cancelled", cancelled), NewCheck("purge/batches", purgeBatches)},
	)
}

// Run runs every check of the suites as a parallel subtest, each with a new harness.
func Run(t *testing.T, newHarness func(testing.TB) *Harness, suites ...[]Check) {
	names := map[string]bool{}
	for _, c := range slices.Concat(suites...) {
		if names[c.Name] {
			t.Errorf("two checks are called %s", c.Name)
		}
		names[c.Name] = true
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			testenv.OK(t, errors.Join(c.Run(t.Context(), h), h.Close()))
		})
	}
}
