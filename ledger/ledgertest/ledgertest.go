// Package ledgertest is the conformance suite that every implementation of ledger.Store must pass.
// See package dbtest, which runs its checks.
package ledgertest

import (
	"slices"

	"sluice/database/dbtest"
)

// Checks returns all checks.
func Checks() []dbtest.Check {
	return slices.Concat(
		sessionChecks, idempotencyChecks, channelChecks, paymentChecks, paymentRaceChecks, settlementChecks,
		submissionChecks, readingChecks, renewalChecks, chargeChecks, foldChecks, inspectionChecks,
		[]dbtest.Check{
			check("census/amounts", censusAmounts),
			check("purge/sessions", purgeSessions),
			check("model/payments", modelPayments),
		},
	)
}
