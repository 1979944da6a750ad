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
	Value(p.Store.CreateSession(p.Ctx, ledger.Session{ID: "session", Total: 3, Left: 3, Expires: p.Clock.Now().Add(time.Hour)}, nil))
	over := database.WithPatience(p.Ctx, 0)
	p.Is(Error(p.Store.UseSession(over, "session", 1, nil)), database.ErrBusy, "use that may not wait")
	p.Is(Error(p.Store.UseSession(over, "session", 1, &database.Idempotency{Scope: "use", Key: "key"})), database.ErrBusy, "keyed use that may not wait")
	p.Is(p.Store.SetProperty(over, "property", "value"), database.ErrBusy, "write that may not wait")
	p.Is(Error(p.Store.Session(over, "session")), database.ErrBusy, "read that may not wait")

	ample := database.WithPatience(p.Ctx, time.Hour)
	session := Value(p.Store.UseSession(ample, "session", 1, nil))
	p.Must(session.Left == 2, "%d chunksets are left, want 2", session.Left)
	p.Is(Error(p.Store.Property(ample, "property")), database.ErrNotFound, "property that was not set")
}
