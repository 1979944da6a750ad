package metatest

import (
	"fmt"
	"time"

	"sluice/database"
	"sluice/ledger"
	"sluice/metastore"
)

func purgeChecks() []Check {
	return []Check{
		check("purge/blobs", purgeBlobs),
		check("purge/idle-uploads", purgeIdleUploads),
		check("purge/ended-uploads", purgeEndedUploads),
		check("purge/sessions", purgeSessions),
		check("purge/batches", purgeBatches),
	}
}

func purgeBlobs(p *probe) {
	e := p.extent(0, 0, 5)
	b, err := p.store.CommitBlob(p.ctx, metastore.Blob{Account: "a", Name: "name", Content: p.content(), Size: 5, Expires: p.clock.Now().Add(time.Hour)},
		[]metastore.Extent{e}, nil)
	p.ok(err, "commit")
	for _, name := range []string{"", string(make([]byte, 2500))} {
		_, err := p.store.CommitBlob(p.ctx, metastore.Blob{Account: "", Name: name, Content: p.content(), Expires: p.clock.Now().Add(time.Minute)}, nil, nil)
		p.ok(err, "commit")
	}
	lasting, _ := p.put("a", "lasting")
	p.clock.Advance(time.Hour + metastore.ExpiredBlobGrace - time.Microsecond)
	p.must(p.purge() == 2, "the two blobs past their grace were not purged")
	_, err = p.store.Blob(p.ctx, "a", "name")
	p.is(err, database.ErrExpired, "blob within its grace, after a purge")
	p.clock.Advance(time.Microsecond)
	p.must(p.purge() == 1, "not only the blob at the end of its grace was purged")
	p.must(p.isGarbage(b.Content), "the content of a purged blob is not garbage")
	p.equal(p.allExtents(b.Content), stored(e), "extents of a purged blob")
	_, had, err := p.store.DeleteBlob(p.ctx, "a", "name", nil)
	p.ok(err, "delete")
	p.must(!had, "a purged blob is still there")
	got, err := p.store.Blob(p.ctx, "a", "lasting")
	p.ok(err, "blob without an expiry")
	p.equal(got, lasting, "blob without an expiry")
	p.must(len(p.garbage()) == 3, "%d contents are garbage", len(p.garbage()))
}

func purgeIdleUploads(p *probe) {
	idle := p.begin("idle", "a", "idle")
	p.part("idle", 0, 5)
	p.begin("touched", "a", "touched")
	p.clock.Advance(metastore.UploadIdleLimit - time.Microsecond)
	p.must(p.purge() == 0, "something was purged too early")
	p.part("touched", 0, 5)
	p.clock.Advance(time.Microsecond)
	n := p.purge()
	p.must(1 <= n && n <= 3, "%d rows were purged, not only the idle upload and its part", n)
	u := p.upload("idle")
	p.must(u.State == metastore.UploadAborted && u.Ended.Equal(p.clock.Now()), "the idle upload is %+v", u)
	p.equal(p.garbage(), []metastore.ContentID{idle.Content}, "garbage")
	err := p.store.PutPart(p.ctx, "idle", metastore.Part{Index: 1, Size: 1}, []metastore.Extent{p.extent(1, 0, 1)})
	p.is(err, metastore.ErrAborted, "part of an upload that was idle")
	p.must(p.upload("touched").State == metastore.UploadOpen, "an upload that was touched is not open")
	p.complete("touched")
}

func purgeEndedUploads(p *probe) {
	for _, id := range []string{"aborted", "committed"} {
		p.begin(id, "a", id)
		for i := range 25 {
			p.part(id, i, 5)
		}
	}
	_, err := p.store.AbortUpload(p.ctx, "aborted")
	p.ok(err, "abort")
	p.complete("committed")
	p.must(p.purge() > 0, "the parts were not purged")
	p.clock.Advance(metastore.UploadRetention - time.Microsecond)
	p.must(p.purge() == 0, "something was purged too early")
	p.clock.Advance(time.Microsecond)
	calls := 0
	for { // the rows of the parts count too, or are deleted by cascade: both are bounded
		n, err := p.store.Purge(p.ctx, 10)
		p.ok(err, "purge")
		p.must(n <= 5*10, "a purge with limit 10 handled %d rows", n)
		if n == 0 {
			break
		}
		calls++
	}
	p.must(calls > 0, "no ended upload was purged")
	for _, id := range []string{"aborted", "committed"} {
		_, err := p.store.Upload(p.ctx, id)
		p.is(err, database.ErrNotFound, "purged upload")
	}
	b, err := p.store.Blob(p.ctx, "a", "committed")
	p.ok(err, "blob of a purged upload")
	p.must(len(p.allExtents(b.Content)) == 25, "extents of a purged upload's blob")
	p.must(!p.isGarbage(b.Content), "the content of a purged upload's blob is garbage")
	p.must(len(p.garbage()) == 1, "%d contents are garbage", len(p.garbage()))
}

func purgeSessions(p *probe) {
	p.session("session", 5)
	_, err := p.store.UseSession(p.ctx, "session", 1, idem("s", "k"))
	p.ok(err, "use")
	p.clock.Advance(ledger.IdempotencyRetention - time.Microsecond)
	p.must(p.purge() == 0, "something was purged too early")
	p.clock.Advance(time.Microsecond)
	p.must(p.purge() == 1, "not only the idempotency key was purged")
	p.clock.Advance(time.Hour + ledger.SessionRetention - ledger.IdempotencyRetention - time.Microsecond)
	p.must(p.purge() == 0, "something was purged too early")
	p.must(p.left("session") == 4, "session at the end of its retention")
	p.clock.Advance(time.Microsecond)
	p.must(p.purge() == 1, "not only the session was purged")
	empty, err := p.store.Empty(p.ctx)
	p.ok(err, "empty")
	p.must(empty, "something is left of a purged session")
}

// purgeBatches checks that a purge stops at its limit and continues in the next call.
func purgeBatches(p *probe) {
	for i := range 30 {
		id := fmt.Sprint(i)
		_, err := p.store.CommitBlob(p.ctx, metastore.Blob{Account: "a", Name: id, Content: p.content(), Expires: p.clock.Now().Add(time.Hour)}, nil, nil)
		p.ok(err, "commit")
		p.begin(id, "a", "upload")
		p.session(id, 1)
		_, err = p.store.UseSession(p.ctx, id, 1, idem("s", id))
		p.ok(err, "use")
	}
	p.clock.Advance(10 * ledger.SessionRetention)
	for calls := 0; ; calls++ {
		p.must(calls < 100, "the purge does not end")
		n, err := p.store.Purge(p.ctx, 7)
		p.ok(err, "purge")
		p.must(n <= 5*7, "a purge with limit 7 handled %d rows", n)
		if n == 0 {
			p.must(calls >= 30/7, "%d calls with limit 7 purged 30 of a kind", calls)
			break
		}
	}
	p.must(len(p.garbage()) == 60, "%d contents are garbage, want 60", len(p.garbage()))
	p.clock.Advance(metastore.UploadRetention)
	p.purge()
	for _, id := range p.garbage() {
		p.ok(p.store.DropContent(p.ctx, id), "drop")
	}
	empty, err := p.store.Empty(p.ctx)
	p.ok(err, "empty")
	p.must(empty, "something is left after everything was purged")
}
