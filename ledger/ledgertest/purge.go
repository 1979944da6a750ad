package ledgertest

import (
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/ledger"
)

func purgeSessions(p *probe) {
	p.Session("session", 5)
	dbtest.Value(p.Store.UseSession(p.Ctx, "session", 1, dbtest.Idem("s", "k")))
	p.Clock.Advance(database.IdempotencyRetention - time.Microsecond)
	p.Must(p.Purge() == 0, "something was purged too early")
	p.Clock.Advance(time.Microsecond)
	p.Must(p.Purge() == 1, "not only the idempotency key was purged")
	p.Clock.Advance(time.Hour + ledger.SessionRetention - database.IdempotencyRetention - time.Microsecond)
	p.Must(p.Purge() == 0, "something was purged too early")
	p.Must(p.left("session") == 4, "session at the end of its retention")
	p.Clock.Advance(time.Microsecond)
	p.Must(p.Purge() == 1, "not only the session was purged")
	empty := dbtest.Value(p.Store.Empty(p.Ctx))
	p.Must(empty, "something is left of a purged session")
}
