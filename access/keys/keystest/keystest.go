// Package keystest is the conformance suite that every implementation of keys.Store must pass. See
// package dbtest, which runs its checks.
package keystest

import "sluice/database/dbtest"

// Checks returns all checks.
func Checks() []dbtest.Check {
	return []dbtest.Check{
		check("keys/create", keyCreate),
		check("keys/grants", keyGrants),
		check("keys/groups", keyGroups),
		check("keys/list", keyList),
		check("keys/revoke", keyRevoke),
		check("keys/stay", keysStay),
		check("keys/version", keyVersion),
		check("keys/update", keyUpdate),
		check("keys/group-limits", keyGroupLimits),
		check("keys/racing-updates", keyRacingUpdates),
		check("keys/racing-creators", keyRacingCreators),
		check("keys/racing-revokes", keyRacingRevokes),
		check("keys/once", keyOnce),
		check("keys/list-groups", groupList),
		check("actions/recorded", actionsRecorded),
		check("actions/paged", actionsPaged),
	}
}
