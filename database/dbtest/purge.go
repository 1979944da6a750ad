package dbtest

import (
	"fmt"
	"time"

	"sluice/ledger"
	"sluice/metastore"
)

// purgeBatches checks that a purge stops at its limit and continues in the next call.
func purgeBatches(p *Probe) {
	for i := range 30 {
		id := fmt.Sprint(i)
		Value(p.Store.CommitBlob(p.Ctx, metastore.Blob{Account: "a", Name: id, Content: p.Content(), Expires: p.Clock.Now().Add(time.Hour)}, nil, nil))
		p.Begin(id, "a", "upload")
		p.Session(id, 1)
		Value(p.Store.UseSession(p.Ctx, id, 1, Idem("s", id)))
	}
	p.Clock.Advance(10 * ledger.SessionRetention)
	for calls := 0; ; calls++ {
		p.Must(calls < 100, "the purge does not end")
		n := Value(p.Store.Purge(p.Ctx, 7))
		p.Must(n <= 5*7, "a purge with limit 7 handled %d rows", n)
		if n == 0 {
			p.Must(calls >= 30/7, "%d calls with limit 7 purged 30 of a kind", calls)
			break
		}
	}
	p.Must(len(p.Garbage()) == 60, "%d contents are garbage, want 60", len(p.Garbage()))
	p.Clock.Advance(metastore.UploadRetention)
	p.Purge()
	for _, id := range p.Garbage() {
		p.OK(p.Store.DropContent(p.Ctx, id), "drop")
	}
	empty := Value(p.Store.Empty(p.Ctx))
	p.Must(empty, "something is left after everything was purged")
}
