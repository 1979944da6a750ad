package httpapi

import (
	"sluice/internal/auditlog"
	"sluice/wire/link"
)

type operation struct {
	rule   rule
	handle func(*call) error
	// reads marks reads and listings: a local instance has their rules, too.
	reads bool
	// probe marks health checks: no credential is examined, and only limits of probes apply.
	probe bool
	// writes marks a change of the database, which the fence can forbid.
	writes bool
	link   link.Verb       // of links that permit it; "": none does
	lists  bool            // it lists blobs, so a link must be for a prefix
	audits auditlog.Action // how it accesses the blob in its path; "": it does not
	fault  string          // the operation as rules of faults name it; "": it has no faults
}

// rule decides whether a caller may use a hosted service's route: it returns nil, or the reason for
// a refusal. A local instance has only the rules of reads. Rules are mayRead and mayList, or made
// by public, requireKey, requireKeyFor, requireScope and requireScopeAt; a nil rule is an error of
// New.
type rule func(*call) error
