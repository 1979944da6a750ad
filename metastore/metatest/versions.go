package metatest

import "sluice/database/dbtest"

var versionChecks = []dbtest.Check{
	check("versions/history", versionHistory),
}
