package database

import "fmt"

// The schemas that this version knows besides its own. Schemas are numbered.
const (
	// OldestSchema is the oldest schema that a start brings up to date. The first release has it.
	OldestSchema = 31
	// DevelopmentSchema is the only one before OldestSchema that a backup may have: the last one of
	// the versions before the first release.
	DevelopmentSchema = 29
	developmentCommit = "897e77e3"
)

// CarryOver says how an instance with a schema before OldestSchema is carried over.
var CarryOver = fmt.Sprintf("it is of the time before the first release, and the commit %[1]s is the last that opens it: carry it over with `sluice backup PLACE` of that commit, for which its server must have started once unless the schema is %[2]d, and `sluice restore PLACE --to NEW` of this version",
	developmentCommit, DevelopmentSchema)
