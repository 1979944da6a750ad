// Package placestest is the conformance suite that every implementation of places.Store must pass.
// See package dbtest, which runs its checks.
package placestest

import "sluice/database/dbtest"

// Checks returns all checks.
func Checks() []dbtest.Check {
	return []dbtest.Check{
		check("places/change", placeChange),
		check("places/block", placeBlock),
		check("places/list", placeList),
		check("places/changes", placeChanges),
		check("places/racing", placeRacing),
		check("places/model", placeModel),
		check("places/record", placeRecord),
	}
}
