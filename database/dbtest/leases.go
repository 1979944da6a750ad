package dbtest

import (
	"fmt"
	"time"

	"sluice/database/whole"
)

var leaseChecks = []Check{
	NewCheck("leases/life", leaseLife),
	NewCheck("leases/release", leaseRelease),
	NewCheck("leases/racing", leaseRacing),
	NewCheck("leases/clock", leaseClock),
}

// leased ends the check unless the lease has the wanted outcome.
func (p *Probe) leased(s whole.Database, name, holder string, ttl time.Duration, want bool) {
	held, err := s.Lease(p.Ctx, name, holder, ttl)
	p.OK(err, "lease %s for %s", name, holder)
	p.Must(held == want, "lease %s for %s: %v, want %v", name, holder, held, want)
}

func leaseLife(p *Probe) {
	other := p.Open()
	p.leased(p.Store, "lease", "a", time.Minute, true)
	p.leased(other, "lease", "b", time.Minute, false)
	p.leased(other, "other lease", "b", time.Minute, true)
	p.advanceEngine(time.Minute - time.Microsecond)
	p.leased(other, "lease", "b", time.Hour, false)
	p.leased(p.Store, "lease", "a", time.Minute, true) // renewed
	p.advanceEngine(time.Minute - time.Microsecond)
	p.leased(other, "lease", "b", time.Minute, false)
	p.Reopen()
	p.leased(p.Store, "lease", "b", time.Minute, false)
	p.advanceEngine(time.Microsecond)
	p.leased(p.Store, "lease", "b", time.Minute, true) // it has expired
	p.leased(p.Store, "lease", "a", time.Minute, false)
	p.leased(p.Store, "lease", "", time.Minute, false)
}

func leaseRelease(p *Probe) {
	p.leased(p.Store, "lease", "a", 0, false) // there is none
	p.leased(p.Store, "lease", "a", time.Minute, true)
	p.leased(p.Store, "lease", "b", 0, false) // not held by the caller
	p.leased(p.Store, "lease", "b", time.Minute, false)
	p.leased(p.Store, "lease", "a", -time.Second, false)
	p.leased(p.Store, "lease", "b", time.Minute, true)
}

// leaseRacing has many holders over two handles compete for a lease each time it expires.
func leaseRacing(p *Probe) {
	handles := []whole.Database{p.Store, p.Open()}
	for round := range 20 {
		held := make([]bool, 12)
		for _, err := range Race(len(held), func(i int) (err error) {
			held[i], err = handles[i%2].Lease(p.Ctx, "lease", fmt.Sprint("holder", round, "-", i), time.Minute)
			return err
		}) {
			p.OK(err, "round %d", round)
		}
		holders := 0
		for _, h := range held {
			if h {
				holders++
			}
		}
		p.Must(holders == 1, "round %d: %d holders have the lease", round, holders)
		p.advanceEngine(time.Minute)
	}
}

// leaseClock advances the handles' clock, which an engine with a separate clock must ignore
// when it judges leases.
func leaseClock(p *Probe) {
	p.leased(p.Store, "lease", "a", time.Minute, true)
	p.Clock.Advance(time.Hour)
	if p.Harness.AdvanceEngine == nil {
		return
	}
	p.leased(p.Store, "lease", "b", time.Minute, false)
	p.advanceEngine(2 * time.Hour)
	p.leased(p.Store, "lease", "b", time.Minute, true)
}
