// Package metatest is the conformance suite that every implementation of metastore.Store must pass.
// See package dbtest, which runs its checks.
package metatest

import (
	"slices"

	"sluice/database/dbtest"
)

// Checks returns all checks.
func Checks() []dbtest.Check {
	return slices.Concat(
		blobChecks, openBlobChecks, copyChecks, moveChecks, copyRaceChecks, nameChecks, listChecks, uploadChecks, uploadRaceChecks, unevenChecks, aliasChecks,
		usageChecks, usageRaceChecks, accountChecks, garbageChecks, integrityChecks, purgeChecks, versionChecks, lockChecks, ruleChecks, changeChecks, webhookChecks, historyChecks(),
	)
}
