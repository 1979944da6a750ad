package metatest

import (
	"strings"
	"time"

	"sluice/database"
	"sluice/ledger"
	"sluice/metastore"
)

// retains ends the check unless the Retained of the owner is exactly this, over every handle.
func (p *probe) retains(owner string, want int64, after string) {
	got, err := p.store.Usage(p.ctx, owner)
	p.ok(err, "usage of %q", owner)
	p.must(got.Retained == want, "%d bytes are retained of %q after %s, want %d", got.Retained, owner, after, want)
}

// drop drops all garbage, every other content by DropContent and the others by DropContents.
func (p *probe) drop() {
	for i, id := range p.garbage() {
		if i%2 == 0 {
			p.ok(p.store.DropContents(p.ctx, []metastore.ContentID{id, id}), "drop contents")
		} else {
			p.ok(p.store.DropExtents(p.ctx, id, positions(p.allExtents(id))), "drop extents")
			p.ok(p.store.DropContent(p.ctx, id), "drop content")
		}
	}
	p.must(len(p.garbage()) == 0, "garbage is left")
}

// usageRetained checks what garbage, outcomes of uploads and recorded requests count, to whom, and
// until when.
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
	_, _, err := p.store.DeleteBlob(p.ctx, "a", "one", nil)
	p.ok(err, "delete")
	p.retains("x", 3*row+205, "a delete")
	p.purge()
	p.reopen()
	p.retains("x", 3*row+205, "a purge")
	p.drop()
	p.retains("x", 0, "freeing the garbage")
	p.retains("y", 0, "freeing the garbage")
	p.purge()
	p.retains("x", 0, "another purge")

	// The outcome of an upload counts from its beginning until it is forgotten.
	p.beginFor("x", "committed", "name")
	outcome := row + int64(len("name"))
	p.retains("x", outcome, "a begin")
	p.part("committed", 0, 50)
	p.part("committed", 0, 60)
	p.retains("x", outcome+row+50, "a part that was sent again")
	p.complete("committed")
	p.complete("committed")
	p.retains("x", outcome+row+50, "a complete")
	p.beginFor("y", "over", "name")
	p.complete("over")
	p.retains("x", outcome+2*row+110, "a complete over it")
	p.retains("y", outcome, "a complete over another's blob")
	p.beginFor("y", "aborted", "longer name")
	for i := range 3 {
		p.part("aborted", i, 10)
	}
	p.beginFor("y", "empty", "")
	for _, id := range []string{"aborted", "aborted", "empty"} {
		_, err := p.store.AbortUpload(p.ctx, id)
		p.ok(err, "abort")
	}
	y := outcome + row + int64(len("longer name")) + row
	p.retains("y", y+3*row+30+row, "two aborts")
	p.drop()
	p.retains("y", y, "freeing the parts")
	p.beginFor("y", "idle", "idle")
	p.part("idle", 0, 9)
	p.clock.Advance(metastore.UploadIdleLimit)
	p.purge()
	p.retains("y", y+row+4+row+9, "purging an idle upload")
	p.drop()
	p.clock.Advance(metastore.UploadRetention - metastore.UploadIdleLimit)
	p.retains("y", y+row+4, "the end of the retention")
	p.purge()
	p.retains("x", 0, "forgetting an upload")
	p.retains("y", row+4, "forgetting some uploads")
	p.clock.Advance(metastore.UploadIdleLimit)
	p.purge()
	p.retains("y", 0, "forgetting the last upload")

	// A blob that has expired becomes garbage when it is purged.
	_, err = p.store.CommitBlob(p.ctx, metastore.Blob{
		Account: "a", Name: "expires", Content: p.content(), Size: 10, Owner: "x", Expires: p.clock.Now().Add(time.Minute), Metadata: "m",
	}, p.extents(0, 10), nil)
	p.ok(err, "commit")
	p.clock.Advance(metastore.ExpiredBlobGrace + time.Minute)
	p.retains("x", 0, "an expiry")
	p.purge()
	p.retains("x", row+10, "purging an expired blob")
	p.drop()
	usageOfRecords(p)
	usageOfStaged(p)
}

// usageOfRecords checks what recorded requests count.
func usageOfRecords(p *probe) {
	const row = metastore.RowCharge
	record := func(key, owner string) {
		i := idem("scope", key)
		i.Owner = owner
		_, err := p.store.OpenChannel(p.ctx, ledger.Channel{
			ID: "channel " + key, PaymentChannelID: int64(key[0]), Receiver: "r", Asset: "a", Expires: p.clock.Now().Add(time.Hour),
		}, i)
		p.ok(err, "open")
		_, err = p.store.AddDeposit(p.ctx, "channel "+key, 1, &ledger.Idempotency{Scope: "deposit", Key: key, Owner: owner})
		p.ok(err, "deposit")
	}
	for range 3 { // once, and two repeats
		record("k", "x")
	}
	p.retains("x", 2*row, "two requests")
	record("l", "")
	p.retains("", 0, "requests without an owner")
	_, err := p.store.AddDeposit(p.ctx, "unknown", 1, &ledger.Idempotency{Scope: "deposit", Key: "refused", Owner: "x"})
	p.is(err, database.ErrNotFound, "deposit")
	_, err = p.store.AddDeposit(p.ctx, "channel k", 1, nil)
	p.ok(err, "deposit")
	p.retains("x", 2*row, "requests that are not recorded")
	p.clock.Advance(ledger.IdempotencyRetention)
	session := ledger.Session{ID: "session", Total: 5, Left: 5, Expires: p.clock.Now().Add(100 * 24 * time.Hour)}
	_, err = p.store.CreateSession(p.ctx, session, nil)
	p.ok(err, "create session")
	for _, owner := range []string{"x", "x", "y"} { // the record expires, and is replaced before it is purged
		_, err = p.store.UseSession(p.ctx, "session", 1, &ledger.Idempotency{Scope: "use", Key: "k", Owner: owner})
		p.ok(err, "use")
		p.clock.Advance(ledger.IdempotencyRetention)
	}
	p.retains("x", 2*row, "replacing the record of another owner")
	p.retains("y", row, "a use that is recorded")
	p.purge()
	p.retains("x", 0, "purging the records")
	p.retains("y", 0, "purging the records")
}

// usageOfStaged commits a content of so many extents that a store may insert them ahead of the
// commit: after it they count as a blob and not as garbage, and after a refusal as garbage or not at
// all.
func usageOfStaged(p *probe) {
	const extents = 5000
	list := make([]metastore.Extent, extents)
	for i := range list {
		list[i] = p.extent(0, int64(i), 1)
	}
	b := metastore.Blob{Account: "a", Name: "staged", Content: p.content(), Size: extents, Owner: "staged"}
	_, err := p.store.CommitBlob(p.ctx, b, list, nil)
	p.ok(err, "commit of many extents")
	p.retains("staged", 0, "a commit of many extents")
	for i := range list {
		list[i] = p.extent(0, int64(i), 1)
	}
	b.Content = p.content()
	_, err = p.store.CommitBlob(p.ctx, b, list, func(*metastore.Blob) error { return errRefused })
	p.is(err, errRefused, "commit of many extents")
	garbage := p.garbage()
	p.retains("staged", int64(len(garbage))*(metastore.RowCharge+extents), "a refused commit of many extents")
	for _, id := range garbage {
		p.ok(p.store.DropExtents(p.ctx, id, positions(p.allExtents(id))), "drop extents")
		p.ok(p.store.DropContent(p.ctx, id), "drop content")
	}
	p.retains("staged", 0, "freeing it")
}

// usageOccupied checks that what is never refused never increases what is occupied, and that what is
// reserved for the others is not exceeded.
func usageOccupied(p *probe) {
	last := int64(0)
	grows := func(atMost int64, what string) {
		used, err := p.store.Usage(p.ctx, "x")
		p.ok(err, "usage")
		p.must(used.Occupied()-last <= atMost, "%s occupies %d bytes, and %d were reserved", what, used.Occupied()-last, atMost)
		last = used.Occupied()
	}
	put := func(name, metadata string, size int64) {
		_, err := p.store.CommitBlob(p.ctx, metastore.Blob{Account: "a", Name: name, Content: p.content(), Size: size, Owner: "x", Metadata: metadata},
			p.extents(0, size), nil)
		p.ok(err, "commit")
		grows(metastore.Charge(name, metadata)+size, "a commit")
	}
	begin := func(id, name, metadata string) {
		_, err := p.store.BeginUpload(p.ctx, metastore.Upload{ID: id, Account: "a", Name: name, Content: p.content(), PartSize: 100, Owner: "x", Metadata: metadata})
		p.ok(err, "begin")
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
	p.complete("empty")
	grows(0, "a complete without parts")
	begin("parts", "one", "m")
	for i := range 3 {
		part("parts", i, 1)
		part("parts", i, 9)
	}
	p.complete("parts")
	grows(0, "a complete")
	for _, parts := range []int{0, 1, 5} {
		id := strings.Repeat("aborted", 1+parts)
		begin(id, "two", "m")
		for i := range parts {
			part(id, i, 1)
		}
		_, err := p.store.AbortUpload(p.ctx, id)
		p.ok(err, "abort")
		grows(0, "an abort")
	}
	begin("idle", "idle", "")
	part("idle", 0, 1)
	for _, name := range []string{"one", long, "none"} {
		_, _, err := p.store.DeleteBlob(p.ctx, "a", name, nil)
		p.ok(err, "delete")
		grows(0, "a delete")
	}
	p.purge()
	grows(0, "a purge")
	p.clock.Advance(metastore.UploadIdleLimit)
	p.purge()
	grows(0, "a purge of an idle upload")
	p.must(last > 0, "nothing is occupied")
	p.drop()
	p.clock.Advance(metastore.UploadRetention)
	p.purge()
	used, err := p.store.Usage(p.ctx, "x")
	p.ok(err, "usage")
	p.equal(used, metastore.Used{}, "usage after everything was forgotten")
}
