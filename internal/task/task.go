// Package task describes a node's background tasks and their runs.
package task

import "time"

// Name identifies a task.
type Name string

// The tasks, with the things that a run counts in parentheses.
const (
	FreeGarbage       Name = "free_garbage"       // deletes the bytes of deleted contents (contents)
	Purge             Name = "purge"              // removes expired rows (rows)
	Versions          Name = "versions"           // deletes the versions that need not be kept any more (versions)
	Rules             Name = "rules"              // applies accounts' rules (removed things)
	Changes           Name = "changes"            // bounds the record of changes (changes)
	Webhooks          Name = "webhooks"           // delivers changes to webhooks (deliveries)
	RestoreReserve    Name = "restore_reserve"    // reserves disk space for deletes again (nothing)
	Sweep             Name = "sweep"              // deletes objects that nothing refers to (objects)
	Settle            Name = "settle"             // collects accepted payments (settlements)
	ReviewSettlements Name = "review_settlements" // searches for payments that expired uncollected (channels)
	Scrub             Name = "scrub"              // reads and checks stored bytes (extents)
	Compare           Name = "compare"            // looks for objects that are missing (objects)
	Heal              Name = "heal"               // repairs damaged extents (extents)
	Census            Name = "census"             // counts stored things, for the metrics (extents)
)

// Names are all tasks.
var Names = []Name{FreeGarbage, Purge, Versions, Rules, Changes, Webhooks, RestoreReserve, Sweep, Settle, ReviewSettlements, Scrub, Compare, Heal, Census}

// rare are the tasks with a few runs a day at most.
var rare = map[Name]bool{Sweep: true, Scrub: true, Compare: true}

// Pausable are the tasks that an operator may pause: those that delete, deliver, or only count. All
// other tasks find and repair damage while there is an intact copy, collect payments before they
// expire, or keep the disk's reserve, so that a forgotten pause would lose data or money.
var Pausable = map[Name]bool{FreeGarbage: true, Purge: true, Versions: true, Rules: true, Changes: true, Webhooks: true, Sweep: true, Census: true}

// Waiting are the tasks that delete by accounts' settings. They are paused with a reason when the
// instance was restored or recovered and when a clock was set, until an operator has seen what they
// would delete.
var Waiting = []Name{Versions, Rules}

// Startable are the tasks that an operator may start. The others run every second or minute.
var Startable = map[Name]bool{FreeGarbage: true, Purge: true, Versions: true, Rules: true, Changes: true, Sweep: true, Scrub: true, Compare: true, Heal: true, Census: true}

// Run is a task's run that has ended.
type Run struct {
	Task  Name
	Began time.Time // by the node's clock
	Took  time.Duration
	Count int64 // of things that the run handled
	Err   error // why it did not handle all of it, or nil
}

// Report is called with each run. It must be safe for concurrent use.
type Report func(Run)

// Do runs work and reports the run, unless skip returns true for its error.
func Do(name Name, report Report, work func() (count int64, err error), skip func(error) bool) {
	began := time.Now()
	count, err := work()
	if err == nil || !skip(err) {
		report(Run{Task: name, Began: began, Took: time.Since(began), Count: count, Err: err})
	}
}
