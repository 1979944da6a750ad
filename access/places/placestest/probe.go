package placestest

import "sluice/database/dbtest"

// probe is a running check.
type probe struct{ *dbtest.Probe }

// check returns the check that calls fn with a probe.
func check(name string, fn func(p *probe)) dbtest.Check {
	return dbtest.NewCheck(name, func(p *dbtest.Probe) { fn(&probe{p}) })
}
