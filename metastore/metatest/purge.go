package metatest

import (
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/metastore"
)

var purgeChecks = []dbtest.Check{
	check("purge/blobs", purgeBlobs),
	check("purge/idle-uploads", purgeIdleUploads),
	check("purge/ended-uploads", purgeEndedUploads),
}

func purgeBlobs(p *probe) {
	e := p.Extent(0, 0, 5)
	b := dbtest.Value(p.Store.CommitBlob(p.Ctx, metastore.Blob{Account: "a", Name: "name", Content: p.Content(), Size: 5, Expires: p.Clock.Now().Add(time.Hour)},
		[]metastore.Extent{e}, nil))
	for _, name := range []string{"", string(make([]byte, 2500))} {
		dbtest.Value(p.Store.CommitBlob(p.Ctx, metastore.Blob{Account: "", Name: name, Content: p.Content(), Expires: p.Clock.Now().Add(time.Minute)}, nil, nil))
	}
	lasting, _ := p.Put("a", "lasting")
	p.Clock.Advance(time.Hour + metastore.ExpiredBlobGrace - time.Microsecond)
	p.Must(p.Purge() == 2, "the two blobs past their grace were not purged")
	p.Is(dbtest.Error(p.Store.Blob(p.Ctx, "a", "name")), database.ErrExpired, "blob within its grace, after a purge")
	p.Clock.Advance(time.Microsecond)
	p.Must(p.Purge() == 1, "not only the blob at the end of its grace was purged")
	p.Must(p.isGarbage(b.Content), "the content of a purged blob is not garbage")
	p.Equal(p.allExtents(b.Content), stored(e), "extents of a purged blob")
	_, had, err := dbtest.Remove(p.Ctx, p.Store, "a", "name", nil)
	p.OK(err, "delete")
	p.Must(!had, "a purged blob is still there")
	p.Equal(dbtest.Value(p.Store.Blob(p.Ctx, "a", "lasting")), lasting, "blob without an expiry")
	p.Must(len(p.Garbage()) == 3, "%d contents are garbage", len(p.Garbage()))
}

func purgeIdleUploads(p *probe) {
	idle := p.Begin("idle", "a", "idle")
	p.part("idle", 0, 5)
	p.Begin("touched", "a", "touched")
	p.Clock.Advance(metastore.UploadIdleLimit - time.Microsecond)
	p.Must(p.Purge() == 0, "something was purged too early")
	p.part("touched", 0, 5)
	p.Clock.Advance(time.Microsecond)
	n := p.Purge()
	p.Must(1 <= n && n <= 3, "%d rows were purged, not only the idle upload and its part", n)
	u := p.Upload("idle")
	p.Must(u.State == metastore.UploadAborted && u.Ended.Equal(p.Clock.Now()), "the idle upload is %+v", u)
	p.Equal(p.Garbage(), []metastore.ContentID{idle.Content}, "garbage")
	err := p.Store.PutPart(p.Ctx, "idle", metastore.Part{Index: 1, Size: 1}, []metastore.Extent{p.Extent(1, 0, 1)})
	p.Is(err, metastore.ErrAborted, "part of an upload that was idle")
	p.Must(p.Upload("touched").State == metastore.UploadOpen, "an upload that was touched is not open")
	p.Complete("touched")
}

func purgeEndedUploads(p *probe) {
	for _, id := range []string{"aborted", "committed"} {
		p.Begin(id, "a", id)
		for i := range 25 {
			p.part(id, i, 5)
		}
	}
	dbtest.Value(p.Store.AbortUpload(p.Ctx, "aborted"))
	p.Complete("committed")
	p.Must(p.Purge() > 0, "the parts were not purged")
	p.Clock.Advance(metastore.UploadRetention - time.Microsecond)
	p.Must(p.Purge() == 0, "something was purged too early")
	p.Clock.Advance(time.Microsecond)
	calls := 0
	for { // the parts' rows count too, or are deleted by cascade: both are bounded
		n := dbtest.Value(p.Store.Purge(p.Ctx, 10))
		p.Must(n <= 5*10, "a purge with limit 10 handled %d rows", n)
		if n == 0 {
			break
		}
		calls++
	}
	p.Must(calls > 0, "no ended upload was purged")
	for _, id := range []string{"aborted", "committed"} {
		p.Is(dbtest.Error(p.Store.Upload(p.Ctx, id)), database.ErrNotFound, "purged upload")
	}
	b := dbtest.Value(p.Store.Blob(p.Ctx, "a", "committed"))
	p.Must(len(p.allExtents(b.Content)) == 25, "extents of a purged upload's blob")
	p.Must(!p.isGarbage(b.Content), "the content of a purged upload's blob is garbage")
	p.Must(len(p.Garbage()) == 1, "%d contents are garbage", len(p.Garbage()))

	// No purge has run while this one was retained.
	p.Begin("late", "a", "late")
	for i := range 25 {
		p.part("late", i, 5)
	}
	dbtest.Value(p.Store.AbortUpload(p.Ctx, "late"))
	p.Clock.Advance(metastore.UploadRetention)
	for n := 1; n > 0; {
		n = dbtest.Value(p.Store.Purge(p.Ctx, 10))
		p.Must(n <= 5*10, "a purge with limit 10 handled %d rows", n)
	}
	p.Is(dbtest.Error(p.Store.Upload(p.Ctx, "late")), database.ErrNotFound, "purged upload")
}
