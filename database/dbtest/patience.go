package dbtest

import (
	"time"

	"sluice/database"
	"sluice/ledger"
)

func patienceChecks() []Check {
	return []Check{NewCheck("patience/over", patienceOver)}
}

// patienceOver checks that a call without patience left returns ErrBusy and has no effect.
func patienceOver(p *Probe) {
	_, err := p.Store.CreateSession(p.Ctx, ledger.Session{ID: "session", Total: 3, Left: 3, Expires: p.Clock.Now().Add(time.Hour)}, nil)
	p.OK(err, "session")
	over := database.WithPatience(p.Ctx, 0)
	_, err = p.Store.UseSession(over, "session", 1, nil)
	p.Is(err, database.ErrBusy, "use that may not wait")
	_, err = p.Store.UseSession(over, "session", 1, &ledger.Idempotency{Scope: "use", Key: "key"})
	p.Is(err, database.ErrBusy, "keyed use that may not wait")
	p.Is(p.Store.SetProperty(over, "property", "value"), database.ErrBusy, "write that may not wait")
	_, err = p.Store.Session(over, "session")
	p.Is(err, database.ErrBusy, "read that may not wait")

	ample := database.WithPatience(p.Ctx, time.Hour)
	session, err := p.Store.UseSession(ample, "session", 1, nil)
	p.OK(err, "use")
	p.Must(session.Left == 2, "%d chunksets are left, want 2", session.Left)
	_, err = p.Store.Property(ample, "property")
	p.Is(err, database.ErrNotFound, "property that was not set")
}
