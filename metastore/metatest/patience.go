package metatest

import (
	"time"

	"sluice/metastore"
)

func patienceChecks() []Check {
	return []Check{check("patience/over", patienceOver)}
}

// patienceOver checks that a call without patience left returns ErrBusy and has no effect.
func patienceOver(p *probe) {
	_, err := p.store.CreateSession(p.ctx, metastore.Session{ID: "session", Total: 3, Left: 3, Expires: p.clock.Now().Add(time.Hour)}, nil)
	p.ok(err, "session")
	over := metastore.WithPatience(p.ctx, 0)
	_, err = p.store.UseSession(over, "session", 1, nil)
	p.is(err, metastore.ErrBusy, "use that may not wait")
	_, err = p.store.UseSession(over, "session", 1, &metastore.Idempotency{Scope: "use", Key: "key"})
	p.is(err, metastore.ErrBusy, "keyed use that may not wait")
	p.is(p.store.SetProperty(over, "property", "value"), metastore.ErrBusy, "write that may not wait")
	_, err = p.store.Session(over, "session")
	p.is(err, metastore.ErrBusy, "read that may not wait")

	ample := metastore.WithPatience(p.ctx, time.Hour)
	session, err := p.store.UseSession(ample, "session", 1, nil)
	p.ok(err, "use")
	p.must(session.Left == 2, "%d chunksets are left, want 2", session.Left)
	_, err = p.store.Property(ample, "property")
	p.is(err, metastore.ErrNotFound, "property that was not set")
}
