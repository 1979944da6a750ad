package metatest

import (
	"fmt"
	"time"

	"sluice/database/whole"
)

func leaseChecks() []Check {
	return []Check{
		check("leases/life", leaseLife),
		check("leases/release", leaseRelease),
		check("leases/racing", leaseRacing),
		check("leases/clock", leaseClock),
	}
}

// leased ends the check unless the lease has the wanted outcome.
func (p *probe) leased(s whole.Database, name, holder string, ttl time.Duration, want bool) {
	held, err := s.Lease(p.ctx, name, holder, ttl)
	p.ok(err, "lease %s for %s", name, holder)
	p.must(held == want, "lease %s for %s: %v, want %v", name, holder, held, want)
}

// advanceEngine advances the clock by which leases are judged.
func (p *probe) advanceEngine(d time.Duration) {
	if p.h.AdvanceEngine == nil {
		p.clock.Advance(d)
		return
	}
	p.ok(p.h.AdvanceEngine(d), "advancing the engine's clock")
}

func leaseLife(p *probe) {
	other := p.open()
	p.leased(p.store, "lease", "a", time.Minute, true)
	p.leased(other, "lease", "b", time.Minute, false)
	p.leased(other, "other lease", "b", time.Minute, true)
	p.advanceEngine(time.Minute - time.Microsecond)
	p.leased(other, "lease", "b", time.Hour, false)
	p.leased(p.store, "lease", "a", time.Minute, true) // renewed
	p.advanceEngine(time.Minute - time.Microsecond)
	p.leased(other, "lease", "b", time.Minute, false)
	p.reopen()
	p.leased(p.store, "lease", "b", time.Minute, false)
	p.advanceEngine(time.Microsecond)
	p.leased(p.store, "lease", "b", time.Minute, true) // it has expired
	p.leased(p.store, "lease", "a", time.Minute, false)
	p.leased(p.store, "lease", "", time.Minute, false)
}

func leaseRelease(p *probe) {
	p.leased(p.store, "lease", "a", 0, false) // there is none
	p.leased(p.store, "lease", "a", time.Minute, true)
	p.leased(p.store, "lease", "b", 0, false) // not held by the caller
	p.leased(p.store, "lease", "b", time.Minute, false)
	p.leased(p.store, "lease", "a", -time.Second, false)
	p.leased(p.store, "lease", "b", time.Minute, true)
}

// leaseRacing has many holders over two handles compete for a lease each time it expires.
func leaseRacing(p *probe) {
	handles := []whole.Database{p.store, p.open()}
	for round := range 20 {
		held := make([]bool, 12)
		for _, err := range race(len(held), func(i int) (err error) {
			held[i], err = handles[i%2].Lease(p.ctx, "lease", fmt.Sprint("holder", round, "-", i), time.Minute)
			return err
		}) {
			p.ok(err, "round %d", round)
		}
		holders := 0
		for _, h := range held {
			if h {
				holders++
			}
		}
		p.must(holders == 1, "round %d: %d holders have the lease", round, holders)
		p.advanceEngine(time.Minute)
	}
}

// leaseClock advances the clock of the handles, which an engine with a separate clock must ignore
// when it judges leases.
func leaseClock(p *probe) {
	p.leased(p.store, "lease", "a", time.Minute, true)
	p.clock.Advance(time.Hour)
	if p.h.AdvanceEngine == nil {
		return
	}
	p.leased(p.store, "lease", "b", time.Minute, false)
	p.advanceEngine(2 * time.Hour)
	p.leased(p.store, "lease", "b", time.Minute, true)
}
