package metatest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/database"
	"sluice/metastore"
)

func uploadChecks() []Check {
	return []Check{
		check("uploads/life", uploadLife),
		check("uploads/parts", uploadParts),
		check("uploads/complete-repeated", uploadCompleteRepeated),
		check("uploads/complete-precondition", uploadCompletePrecondition),
		check("uploads/create-only", uploadCreateOnly),
		check("uploads/expired-complete", uploadExpired),
		check("uploads/revision", uploadRevision),
		check("uploads/abort", uploadAbort),
		check("uploads/ended", uploadEnded),
		check("uploads/outcome", uploadOutcome),
		check("uploads/retention", uploadRetention),
		check("uploads/list", uploadList),
	}
}

func uploadLife(p *probe) {
	now := p.clock.Now()
	in := metastore.Upload{
		ID: "upload", Account: "a\xff", Name: "n\x00", Content: p.content(), PartSize: 1 << 30, ContentType: "x/y", Metadata: "m\x00\xff",
		Expires: now.Add(48*time.Hour + time.Nanosecond), CreateOnly: true,
		// The fields that the store sets are ignored.
		State: metastore.UploadAborted, Bytes: 1, Parts: 9, Revision: 2, Size: 3, CRC64: 4, Created: now.Add(time.Hour), Ended: now,
	}
	want := in
	want.Expires = now.Add(48 * time.Hour)
	want.State, want.Bytes, want.Parts, want.Revision, want.Size, want.CRC64 = metastore.UploadOpen, 0, 0, 0, 0, 0
	want.Created, want.Touched, want.Ended = now, now, time.Time{}
	got, err := p.store.BeginUpload(p.ctx, in)
	p.ok(err, "begin")
	want.Revision = got.Revision // any initial number
	p.equal(got, want, "begun upload")
	p.reopen()
	p.equal(p.upload("upload"), want, "begun upload")
	_, err = p.store.Blob(p.ctx, "a\xff", "n\x00")
	p.is(err, database.ErrNotFound, "blob before the commit")

	p.clock.Advance(time.Minute)
	e1 := p.part("upload", 1, 7)
	e0 := p.extents(0, 1<<30)
	p.ok(p.store.PutPart(p.ctx, "upload", metastore.Part{Size: 1 << 30, CRC64: 1}, e0), "part 0")
	open := p.upload("upload")
	p.must(open.Revision > want.Revision, "the revision did not increase")
	want.Revision, want.Bytes, want.Parts, want.Touched = open.Revision, 1<<30+7, 2, p.clock.Now()
	p.equal(open, want, "upload with parts")

	p.clock.Advance(time.Minute)
	done, err := p.store.CompleteUpload(p.ctx, "upload", want.Revision, 1<<30+7, 1<<63+5, nil)
	p.ok(err, "complete")
	want.State, want.Size, want.CRC64 = metastore.UploadCommitted, 1<<30+7, 1<<63+5
	want.Ended, want.Modified = p.clock.Now(), p.clock.Now()
	want.Parts, want.ContentType, want.Metadata = 0, "", "" // not retained
	p.equal(done, want, "completed upload")
	p.reopen()
	p.equal(p.upload("upload"), want, "completed upload")
	b, err := p.store.Blob(p.ctx, "a\xff", "n\x00")
	p.ok(err, "blob")
	p.equal(b, metastore.Blob{
		Account: "a\xff", Name: "n\x00", Content: in.Content, Size: 1<<30 + 7, CRC64: 1<<63 + 5, PartSize: 1 << 30,
		ContentType: "x/y", Metadata: "m\x00\xff", Modified: want.Modified, Expires: want.Expires,
	}, "blob")
	p.equal(p.allExtents(b.Content), stored(append(e0, e1)...), "extents")
	p.must(len(p.garbage()) == 0, "an upload without a repeated part created garbage")

	u := p.begin("empty", "a", "empty")
	_, err = p.store.CompleteUpload(p.ctx, "empty", u.Revision, 0, 0, nil)
	p.ok(err, "complete without parts")
	b, err = p.store.Blob(p.ctx, "a", "empty")
	p.ok(err, "empty blob")
	p.must(b.Size == 0 && len(p.allExtents(b.Content)) == 0, "the empty blob is not empty")
	_, err = p.store.BeginUpload(p.ctx, metastore.Upload{ID: "empty", Content: p.content()})
	p.must(err != nil, "two uploads have the same id")
}

func uploadParts(p *probe) {
	u := p.begin("upload", "a", "name")
	want := map[int]metastore.Extent{}
	dropped := 0
	for i, index := range []int{9, 3, 99_999, 0, 3, 1, 3, 9, 2} {
		if _, again := want[index]; again {
			dropped++
		}
		before := p.upload("upload").Revision
		want[index] = p.part("upload", index, int64(10+i))
		p.must(p.upload("upload").Revision > before, "the revision did not increase with part %d", index)
	}
	var parts []metastore.Part
	var bytes int64
	for _, index := range []int{0, 1, 2, 3, 9, 99_999} {
		size := want[index].Size
		parts = append(parts, metastore.Part{Index: index, Size: size, CRC64: uint64(size)})
		bytes += size
	}
	p.must(p.upload("upload").Bytes == bytes, "bytes are %d, want %d", p.upload("upload").Bytes, bytes)
	for after := -1; after < 11; after++ {
		first := slices.IndexFunc(parts, func(q metastore.Part) bool { return q.Index > after })
		for limit := 1; limit < 8; limit++ {
			got, err := p.store.Parts(p.ctx, "upload", after, limit)
			p.ok(err, "parts")
			p.equal(got, parts[first:min(first+limit, len(parts))], "parts after %d in pages of %d", after, limit)
		}
	}
	got, err := p.store.Parts(p.ctx, "upload", 99_999, 5)
	p.ok(err, "parts")
	p.must(len(got) == 0, "parts after the last one")
	garbage := p.garbage()
	p.must(len(garbage) == dropped, "%d contents are garbage after %d repeated parts", len(garbage), dropped)
	var keys []string
	for _, id := range garbage {
		p.must(id != u.Content, "the content of an open upload is garbage")
		for _, e := range p.allExtents(id) {
			p.must(want[e.Part].Key != e.Key, "the newest extent of part %d is garbage", e.Part)
			keys = append(keys, e.Key)
		}
	}
	p.must(len(keys) == dropped, "%d extents are garbage, want %d", len(keys), dropped)
	p.complete("upload")
	b, err := p.store.Blob(p.ctx, "a", "name")
	p.ok(err, "blob")
	for _, e := range p.allExtents(b.Content) {
		p.equal(e, stored(want[e.Part])[0], "extent of part %d", e.Part)
	}

	// A part of several extents, some of them inline, is stored again.
	p.begin("second", "a", "second")
	for range 3 {
		extents := []metastore.Extent{p.inline(4, 0, []byte("abc")), p.extent(4, 3, 5), p.inline(4, 8, []byte("de"))}
		p.ok(p.store.PutPart(p.ctx, "second", metastore.Part{Index: 4, Size: 10}, extents), "part")
		p.equal(p.allExtents(p.upload("second").Content), stored(extents...), "extents of the part")
	}
	fresh := 0
	for _, id := range p.garbage() {
		if !slices.Contains(garbage, id) {
			fresh++
			list := p.allExtents(id)
			p.must(len(list) == 3 && string(list[0].Body) == "abc", "a replaced part has the extents %+v", list)
		}
	}
	p.must(fresh == 2, "%d contents became garbage for 2 replaced parts", fresh)
}

func uploadCompleteRepeated(p *probe) {
	p.begin("upload", "a", "name")
	p.part("upload", 0, 5)
	done := p.complete("upload")
	again := func(when string) {
		asked := func(*metastore.Blob) error { return errRefused }
		got, err := p.store.CompleteUpload(p.ctx, "upload", 12345, 999, 888, asked)
		p.ok(err, "repeated complete %s", when)
		p.equal(got, done, "outcome %s", when)
	}
	again("immediately")
	p.put("a", "name")
	again("after an overwrite")
	_, _, err := p.store.DeleteBlob(p.ctx, "a", "name", nil)
	p.ok(err, "delete")
	again("after a delete")
	_, err = p.store.Blob(p.ctx, "a", "name")
	p.is(err, database.ErrNotFound, "blob that a repeated complete must not restore")
	p.clock.Advance(metastore.UploadRetention - time.Microsecond)
	p.reopen()
	again("at the end of the retention")
}

func uploadCompletePrecondition(p *probe) {
	current, _ := p.put("a", "name")
	p.begin("upload", "a", "name")
	p.part("upload", 0, 5)
	before := p.upload("upload")
	_, err := p.store.CompleteUpload(p.ctx, "upload", before.Revision, 5, 1, func(b *metastore.Blob) error {
		if b == nil || b.Content != current.Content {
			return fmt.Errorf("the precondition got %+v", b)
		}
		return errRefused
	})
	p.identical(err, errRefused, "complete")
	p.equal(p.upload("upload"), before, "upload after the refusal")
	got, err := p.store.Blob(p.ctx, "a", "name")
	p.ok(err, "blob")
	p.equal(got, current, "blob after the refusal")
	p.must(len(p.garbage()) == 0, "the refusal created garbage")
	done := p.complete("upload")
	p.must(done.State == metastore.UploadCommitted, "complete after a refusal")
	p.equal(p.garbage(), []metastore.ContentID{current.Content}, "garbage after the complete")
}

func uploadCreateOnly(p *probe) {
	p.put("a", "name")
	u, err := p.store.BeginUpload(p.ctx, metastore.Upload{ID: "upload", Account: "a", Name: "name", Content: p.content(), CreateOnly: true})
	p.ok(err, "begin")
	_, err = p.store.CompleteUpload(p.ctx, "upload", u.Revision, 0, 0, createOnly)
	p.identical(err, errRefused, "complete with a precondition")
	_, err = p.store.CompleteUpload(p.ctx, "upload", u.Revision, 0, 0, nil)
	p.is(err, database.ErrExists, "complete without a precondition")
	p.equal(p.upload("upload"), u, "upload after refusals")
	_, _, err = p.store.DeleteBlob(p.ctx, "a", "name", nil)
	p.ok(err, "delete")
	p.complete("upload")
}

// uploadExpired completes an upload whose blob has expired.
func uploadExpired(p *probe) {
	current, _ := p.put("a", "name")
	expires := p.clock.Now().Add(time.Hour)
	for _, id := range []string{"in time", "late"} {
		_, err := p.store.BeginUpload(p.ctx, metastore.Upload{
			ID: id, Account: "a", Name: map[string]string{"in time": "other", "late": "name"}[id],
			Content: p.content(), PartSize: 100, Expires: expires,
		})
		p.ok(err, "begin")
		p.part(id, 0, 5)
	}
	p.clock.Advance(time.Hour - time.Microsecond)
	done := p.complete("in time")
	late := p.upload("late")
	for range 2 {
		p.clock.Advance(time.Microsecond)
		_, err := p.store.CompleteUpload(p.ctx, "late", late.Revision, 5, 1, func(*metastore.Blob) error { return errRefused })
		p.is(err, database.ErrExpired, "complete after the expiry")
		p.equal(p.upload("late"), late, "upload after the refusal")
	}
	got, err := p.store.Blob(p.ctx, "a", "name")
	p.ok(err, "blob")
	p.equal(got, current, "blob after the refusals")
	p.must(len(p.garbage()) == 0, "the refusals created garbage")
	p.part("late", 1, 5)
	_, err = p.store.AbortUpload(p.ctx, "late")
	p.ok(err, "abort of an upload that cannot be completed")
	again, err := p.store.CompleteUpload(p.ctx, "in time", 0, 0, 0, nil)
	p.ok(err, "repeated complete after the expiry")
	p.equal(again, done, "outcome")
}

func uploadRevision(p *probe) {
	p.begin("upload", "a", "name")
	p.part("upload", 0, 5)
	old := p.upload("upload").Revision
	e := p.part("upload", 0, 6)
	before := p.upload("upload")
	_, err := p.store.CompleteUpload(p.ctx, "upload", old, 5, 1, nil)
	p.is(err, metastore.ErrRevisionMismatch, "complete of a changed upload")
	_, err = p.store.Blob(p.ctx, "a", "name")
	p.is(err, database.ErrNotFound, "blob of a refused complete")
	p.equal(p.upload("upload"), before, "upload after a refused complete")
	p.complete("upload")
	b, err := p.store.Blob(p.ctx, "a", "name")
	p.ok(err, "blob")
	p.equal(p.allExtents(b.Content), stored(e), "extents")
}

func uploadAbort(p *probe) {
	u := p.begin("upload", "a", "name")
	e := p.part("upload", 0, 5)
	p.clock.Advance(time.Second)
	for range 2 {
		id, err := p.store.AbortUpload(p.ctx, "upload")
		p.ok(err, "abort")
		p.equal(id, u.Content, "content")
		p.equal(p.garbage(), []metastore.ContentID{u.Content}, "garbage")
		p.equal(p.allExtents(u.Content), stored(e), "extents of an aborted upload")
	}
	got := p.upload("upload")
	p.must(got.State == metastore.UploadAborted && got.Ended.Equal(p.clock.Now()), "aborted upload is %+v", got)
	p.must(got.Bytes == 5 && got.Parts == 0 && got.ContentType == "" && got.Metadata == "", "of the aborted upload %+v is retained", got)
	_, err := p.store.Blob(p.ctx, "a", "name")
	p.is(err, database.ErrNotFound, "blob of an aborted upload")
}

// uploadEnded calls every method on uploads that are unknown or have ended.
func uploadEnded(p *probe) {
	p.begin("aborted", "a", "aborted")
	_, err := p.store.AbortUpload(p.ctx, "aborted")
	p.ok(err, "abort")
	p.begin("committed", "a", "committed")
	e := p.part("committed", 0, 5)
	done := p.complete("committed")
	for id, want := range map[string]error{
		"unknown": database.ErrNotFound, "aborted": metastore.ErrAborted, "committed": metastore.ErrCommitted,
	} {
		before, _ := p.store.Upload(p.ctx, id)
		late := p.extent(0, 0, 6)
		err := p.store.PutPart(p.ctx, id, metastore.Part{Size: 6}, []metastore.Extent{late})
		p.is(err, want, "part of the upload %s", id)
		free, err := p.store.Unreferenced(p.ctx, []string{late.Key})
		p.ok(err, "unreferenced")
		p.must(len(free) == 1, "a part refused by the upload %s was stored", id)
		after, _ := p.store.Upload(p.ctx, id)
		p.equal(after, before, "upload %s after a part it refused", id)
	}
	_, err = p.store.CompleteUpload(p.ctx, "aborted", p.upload("aborted").Revision, 0, 0, nil)
	p.is(err, metastore.ErrAborted, "complete of an aborted upload")
	_, err = p.store.CompleteUpload(p.ctx, "unknown", 0, 0, 0, nil)
	p.is(err, database.ErrNotFound, "complete of an unknown upload")
	_, err = p.store.AbortUpload(p.ctx, "committed")
	p.is(err, metastore.ErrCommitted, "abort of a committed upload")
	_, err = p.store.AbortUpload(p.ctx, "unknown")
	p.is(err, database.ErrNotFound, "abort of an unknown upload")
	_, err = p.store.Upload(p.ctx, "unknown")
	p.is(err, database.ErrNotFound, "unknown upload")
	_, err = p.store.Parts(p.ctx, "unknown", -1, 1)
	p.is(err, database.ErrNotFound, "parts of an unknown upload")
	b, err := p.store.Blob(p.ctx, "a", "committed")
	p.ok(err, "blob")
	p.must(b.Content == done.Content && b.CRC64 == done.CRC64, "a late part changed the blob")
	p.equal(p.allExtents(b.Content), stored(e), "extents after a late part")
	p.must(!p.isGarbage(b.Content), "the blob's content is garbage")
}

// uploadOutcome checks what is retained of an ended upload: neither its parts, from its end on, nor its
// ContentType and Metadata; and that its blob has the latter.
func uploadOutcome(p *probe) {
	for _, id := range []string{"aborted", "committed", "idle"} {
		_, err := p.store.BeginUpload(p.ctx, metastore.Upload{
			ID: id, Account: "a", Name: id, Content: p.content(), PartSize: 100, ContentType: "x/y", Metadata: "m",
		})
		p.ok(err, "begin")
		for i := range 7 {
			p.part(id, i, 5)
		}
	}
	_, err := p.store.AbortUpload(p.ctx, "aborted")
	p.ok(err, "abort")
	p.complete("committed")
	for _, id := range []string{"aborted", "committed"} { // before a purge
		u := p.upload(id)
		p.must(u.Bytes == 35 && u.Parts == 0 && u.ContentType == "" && u.Metadata == "", "the outcome of an upload is %+v", u)
	}
	p.clock.Advance(metastore.UploadIdleLimit)
	for _, limit := range []int{3, 1000} {
		for n := 1; n > 0; {
			n, err = p.store.Purge(p.ctx, limit)
			p.ok(err, "purge")
		}
		for _, id := range []string{"aborted", "committed", "idle"} {
			u := p.upload(id)
			p.must(u.State != metastore.UploadOpen && u.Bytes == 35 && u.Name == id && u.Parts == 0 && u.ContentType == "" && u.Metadata == "",
				"the outcome of an upload is %+v", u)
			parts, err := p.store.Parts(p.ctx, id, -1, 10)
			p.ok(err, "parts")
			p.must(len(parts) == 0, "an ended upload has %d parts", len(parts))
		}
	}
	b, err := p.store.Blob(p.ctx, "a", "committed")
	p.ok(err, "blob")
	p.must(b.Size == 35 && b.ContentType == "x/y" && b.Metadata == "m", "the blob is %+v", b)
	p.must(len(p.allExtents(b.Content)) == 7, "the blob has lost extents")
}

func uploadRetention(p *probe) {
	p.begin("aborted", "a", "aborted")
	_, err := p.store.AbortUpload(p.ctx, "aborted")
	p.ok(err, "abort")
	p.begin("committed", "a", "committed")
	p.part("committed", 3, 5)
	p.complete("committed")
	p.clock.Advance(metastore.UploadRetention - time.Microsecond)
	p.upload("aborted")
	p.must(p.upload("committed").Bytes == 5, "the bytes of the outcome are %d", p.upload("committed").Bytes)
	p.clock.Advance(time.Microsecond)
	for range 2 {
		for _, id := range []string{"aborted", "committed"} {
			_, err = p.store.Upload(p.ctx, id)
			p.is(err, database.ErrNotFound, "upload %s after its retention", id)
			_, err = p.store.AbortUpload(p.ctx, id)
			p.is(err, database.ErrNotFound, "abort of %s after its retention", id)
			_, err = p.store.CompleteUpload(p.ctx, id, 0, 0, 0, nil)
			p.is(err, database.ErrNotFound, "complete of %s after its retention", id)
		}
		p.purge()
	}
	b, err := p.store.Blob(p.ctx, "a", "committed")
	p.ok(err, "blob of an upload past its retention")
	p.must(len(p.allExtents(b.Content)) == 1, "extents of the blob of an upload past its retention")
}

func uploadList(p *probe) {
	var open []string
	ids := []string{"m", "z", "a", "q", "b", "y", "c"}
	for i, id := range ids {
		p.begin(id, "a", "same name")
		if i%3 != 0 { // some begin simultaneously
			p.clock.Advance(time.Microsecond)
		}
	}
	p.begin("foreign", "b", "same name")
	var created []time.Time
	list, _, err := p.store.ListUploads(p.ctx, "a", "", 100, 0)
	p.ok(err, "list")
	for _, u := range list {
		open = append(open, u.ID)
		created = append(created, u.Created)
		p.equal(u, p.upload(u.ID), "listed upload")
	}
	p.must(slices.IsSortedFunc(created, time.Time.Compare), "uploads are not listed by creation: %q", open)
	sorted := slices.Clone(open)
	slices.Sort(sorted)
	slices.Sort(ids)
	p.equal(sorted, ids, "open uploads")
	for i := -1; i < len(open); i++ {
		after := ""
		if i >= 0 {
			after = open[i]
		}
		for limit := 1; limit <= len(open); limit++ {
			p.equal(p.uploadIDs(after, limit), slices.Clone(open[i+1:min(i+1+limit, len(open))]), "uploads after %q in pages of %d", after, limit)
		}
	}
	_, err = p.store.AbortUpload(p.ctx, open[2])
	p.ok(err, "abort")
	p.complete(open[3])
	p.equal(p.uploadIDs("", 100), append(slices.Clone(open[:2]), open[4:]...), "uploads without the ended ones")
	p.equal(p.uploadIDs(open[2], 100), slices.Clone(open[4:]), "uploads after an ended one")
	p.begin("long", "a", strings.Repeat("n", 3000))
	charge := int64(database.EntryCharge + len("same name"))
	for bytes, want := range map[int64]int{1: 1, charge: 1, 2*charge - 1: 1, 2 * charge: 2, 5 * charge: 5, 6 * charge: 5, 5*charge + 2999 + database.EntryCharge: 5, 5*charge + 3000 + database.EntryCharge: 6} {
		list, more, err := p.store.ListUploads(p.ctx, "a", "", 100, bytes)
		p.ok(err, "list")
		p.must(len(list) == want && more == (want < 6), "%d uploads in %d bytes, want %d; more is %v", len(list), bytes, want, more)
	}
	_, _, err = p.store.ListUploads(p.ctx, "a", "unknown", 10, 0)
	p.is(err, database.ErrNotFound, "uploads after an unknown one")
}

func (p *probe) uploadIDs(after string, limit int) []string {
	list, more, err := p.store.ListUploads(p.ctx, "a", after, limit, 0)
	p.ok(err, "list")
	all, _, err := p.store.ListUploads(p.ctx, "a", after, 100, 0)
	p.ok(err, "list all")
	p.must(more == (len(all) > len(list)), "%d of %d uploads in a page of %d: more is %v", len(list), len(all), limit, more)
	ids := []string{}
	for _, u := range list {
		ids = append(ids, u.ID)
	}
	return ids
}
