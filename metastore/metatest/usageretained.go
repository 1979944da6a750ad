package metatest

import (
	"strings"
	"time"

	"sluice/database/dbtest"
	"sluice/metastore"
)

// retains ends the check unless the owner's Retained is exactly this, over every handle.
func (p *probe) retains(owner string, want int64, after string) {
	got, err := p.Store.Usage(p.Ctx, owner)
	p.OK(err, "usage of %q", owner)
	p.Must(got.Retained == want, "%d bytes are retained of %q after %s, want %d", got.Retained, owner, after, want)
}

// drop drops all garbage, every other content by DropContents if it is small, and the rest by
// DropContent.
func (p *probe) drop() {
	for i, id := range p.Garbage() {
		if extents := p.allExtents(id); i%2 == 0 && len(extents) <= metastore.MaxSmallExtents {
			p.OK(p.Store.DropContents(p.Ctx, []metastore.ContentID{id, id}), "drop contents")
		} else {
			p.OK(p.Store.DropExtents(p.Ctx, id, positions(extents)), "drop extents")
			p.OK(p.Store.DropContent(p.Ctx, id), "drop content")
		}
	}
	p.Must(len(p.Garbage()) == 0, "garbage is left")
}

// usageRetained checks the retained bytes of garbage, outcomes of uploads and recorded requests, to
// whom they count, and until when.
func usageRetained(p *probe) {
	const row = metastore.RowCharge
	p.putFor("x", "one", 100)
	p.retains("x", 0, "a commit")
	p.putFor("x", "one", 100)
	p.retains("x", row+100, "an overwrite of the same size")
	p.putFor("y", "one", 7)
	p.retains("x", 2*(row+100), "an overwrite by another owner")
	p.retains("y", 0, "an overwrite of another's blob")
	p.putFor("", "one", 3)
	p.putFor("x", "one", 5)
	p.retains("y", row+7, "an overwrite without an owner")
	p.retains("", 0, "an overwrite of a blob without an owner")
	p.remove("a", "one")
	p.retains("x", 3*row+205, "a delete")
	p.Purge()
	p.Reopen()
	p.retains("x", 3*row+205, "a purge")
	p.drop()
	p.retains("x", 0, "freeing the garbage")
	p.retains("y", 0, "freeing the garbage")
	p.Purge()
	p.retains("x", 0, "another purge")

	// An upload's outcome counts from the upload's beginning until it is forgotten.
	p.beginFor("x", "committed", "name")
	outcome := row + int64(len("name"))
	p.retains("x", outcome, "a begin")
	p.part("committed", 0, 50)
	p.part("committed", 0, 60)
	p.retains("x", outcome+row+50, "a part that was sent again")
	p.Complete("committed")
	p.Complete("committed")
	p.retains("x", outcome+row+50, "a complete")
	p.beginFor("y", "over", "name")
	p.Complete("over")
	p.retains("x", outcome+2*row+110, "a complete over it")
	p.retains("y", outcome, "a complete over another's blob")
	p.beginFor("y", "aborted", "longer name")
	for i := range 3 {
		p.part("aborted", i, 10)
	}
	p.beginFor("y", "empty", "")
	for _, id := range []string{"aborted", "aborted", "empty"} {
		dbtest.Value(p.Store.AbortUpload(p.Ctx, id))
	}
	y := outcome + row + int64(len("longer name")) + row
	p.retains("y", y+3*row+30+row, "two aborts")
	p.drop()
	p.retains("y", y, "freeing the parts")
	p.beginFor("y", "idle", "idle")
	p.part("idle", 0, 9)
	p.Clock.Advance(metastore.UploadIdleLimit)
	p.Purge()
	p.retains("y", y+row+4+row+9, "purging an idle upload")
	p.drop()
	p.Clock.Advance(metastore.UploadRetention - metastore.UploadIdleLimit)
	p.retains("y", y+row+4, "the end of the retention")
	p.Purge()
	p.retains("x", 0, "forgetting an upload")
	p.retains("y", row+4, "forgetting some uploads")
	p.Clock.Advance(metastore.UploadIdleLimit)
	p.Purge()
	p.retains("y", 0, "forgetting the last upload")

	// A blob that has expired becomes garbage when it is purged.
	dbtest.Value(p.Store.CommitBlob(p.Ctx, metastore.Blob{
		Account: "a", Name: "expires", Content: p.Content(), Size: 10, Owner: "x", Expires: p.Clock.Now().Add(time.Minute), Metadata: "m",
	}, p.extents(0, 10), nil))
	p.Clock.Advance(metastore.ExpiredBlobGrace + time.Minute)
	p.retains("x", 0, "an expiry")
	p.Purge()
	p.retains("x", row+10, "purging an expired blob")
	p.drop()
	usageOfRecords(p)
	usageOfStaged(p)
}

// usageOfStaged commits so many extents that a store may insert them before the commit. After the
// commit they count as a blob and not as garbage. After a refusal they count as garbage or not at
// all.
func usageOfStaged(p *probe) {
	const extents = 5000
	list := make([]metastore.Extent, extents)
	for i := range list {
		list[i] = p.Extent(0, int64(i), 1)
	}
	b := metastore.Blob{Account: "a", Name: "staged", Content: p.Content(), Size: extents, Owner: "staged"}
	dbtest.Value(p.Store.CommitBlob(p.Ctx, b, list, nil))
	p.retains("staged", 0, "a commit of many extents")
	for i := range list {
		list[i] = p.Extent(0, int64(i), 1)
	}
	b.Content = p.Content()
	p.Is(dbtest.Error(p.Store.CommitBlob(p.Ctx, b, list, func(*metastore.Blob) error { return errRefused })), errRefused, "commit of many extents")
	garbage := p.Garbage()
	p.retains("staged", int64(len(garbage))*(metastore.RowCharge+extents), "a refused commit of many extents")
	for _, id := range garbage {
		p.OK(p.Store.DropExtents(p.Ctx, id, positions(p.allExtents(id))), "drop extents")
		p.OK(p.Store.DropContent(p.Ctx, id), "drop content")
	}
	p.retains("staged", 0, "freeing it")
}

// usageOccupied checks that calls that are never refused never increase the occupied bytes, and
// that the other calls do not exceed their reservations.
func usageOccupied(p *probe) {
	last := int64(0)
	grows := func(atMost int64, call string) {
		used := dbtest.Value(p.Store.Usage(p.Ctx, "x"))
		p.Must(used.Occupied()-last <= atMost, "%s occupies %d bytes, and %d were reserved", call, used.Occupied()-last, atMost)
		last = used.Occupied()
	}
	put := func(name, metadata string, size int64) {
		dbtest.Value(p.Store.CommitBlob(p.Ctx, metastore.Blob{Account: "a", Name: name, Content: p.Content(), Size: size, Owner: "x", Metadata: metadata},
			p.extents(0, size), nil))
		grows(metastore.Charge(name, metadata)+size, "a commit")
	}
	begin := func(id, name, metadata string) {
		dbtest.Value(p.Store.BeginUpload(p.Ctx, metastore.Upload{ID: id, Account: "a", Name: name, Content: p.Content(), PartSize: 100, Owner: "x", Metadata: metadata}))
		grows(metastore.Charge(name, metadata)+metastore.OutcomeCharge(name), "a begin")
	}
	part := func(id string, index int, size int64) {
		p.part(id, index, size)
		grows(metastore.Charge("", "")+size, "a part")
	}
	long := strings.Repeat("n", 3000)
	for range 3 {
		put("one", "m", 1)
		put("one", strings.Repeat("m", 500), 100)
		put(long, "", 1)
	}
	begin("empty", long, "mm")
	p.Complete("empty")
	grows(0, "a complete without parts")
	begin("parts", "one", "m")
	for i := range 3 {
		part("parts", i, 1)
		part("parts", i, 9)
	}
	p.Complete("parts")
	grows(0, "a complete")
	for _, parts := range []int{0, 1, 5} {
		id := strings.Repeat("aborted", 1+parts)
		begin(id, "two", "m")
		for i := range parts {
			part(id, i, 1)
		}
		dbtest.Value(p.Store.AbortUpload(p.Ctx, id))
		grows(0, "an abort")
	}
	begin("idle", "idle", "")
	part("idle", 0, 1)
	for _, name := range []string{"one", long, "none"} {
		p.remove("a", name)
		grows(0, "a delete")
	}
	p.Purge()
	grows(0, "a purge")
	p.Clock.Advance(metastore.UploadIdleLimit)
	p.Purge()
	grows(0, "a purge of an idle upload")
	p.Must(last > 0, "nothing is occupied")
	p.drop()
	p.Clock.Advance(metastore.UploadRetention)
	p.Purge()
	p.Equal(dbtest.Value(p.Store.Usage(p.Ctx, "x")), metastore.Used{}, "usage after everything was forgotten")
}
