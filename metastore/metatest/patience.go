package metatest

import (
	"time"

	"sluice/database"
	"sluice/ledger"
)

func patienceChecks() []Check {
	return []Check{check("patience/over", patienceOver)}
}

// patienceOver checks that a call without patience left returns ErrBusy and has no effect.
func patienceOver(p *probe) {
	_, err := p.store.CreateSession(p.ctx, ledger.Session{ID: "session", Total: 3, Left: 3, Expires: p.clock.Now().Add(time.Hour)}, nil)
	p.ok(err, "session")
	over := database.WithPatience(p.ctx, 0)
	_, err = p.store.UseSession(over, "session", 1, nil)
	p.is(err, database.ErrBusy, "use that may not wait")
	_, err = p.store.UseSession(over, "session", 1, &ledger.Idempotency{Scope: "use", Key: "key"})
	p.is(err, database.ErrBusy, "keyed use that may not wait")
	p.is(p.store.SetProperty(over, "property", "value"), database.ErrBusy, "write that may not wait")
	_, err = p.store.Session(over, "session")
	p.is(err, database.ErrBusy, "read that may not wait")

	ample := database.WithPatience(p.ctx, time.Hour)
	session, err := p.store.UseSession(ample, "session", 1, nil)
	p.ok(err, "use")
	p.must(session.Left == 2, "%d chunksets are left, want 2", session.Left)
	_, err = p.store.Property(ample, "property")
	p.is(err, database.ErrNotFound, "property that was not set")
}
