package metatest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/metastore"
)

var uploadChecks = []dbtest.Check{
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
	check("uploads/by-name", uploadsByName),
}

func uploadLife(p *probe) {
	now := p.Clock.Now()
	in := metastore.Upload{
		ID: "upload", Account: "a\xff", Name: "n\x00", Content: p.Content(), PartSize: 1 << 30, ContentType: "x/y", Metadata: "m\x00\xff",
		Expires: now.Add(48*time.Hour + time.Nanosecond), CreateOnly: true,
		// The fields that the store sets are ignored.
		State: metastore.UploadAborted, Bytes: 1, Parts: 9, Revision: 2, Size: 3, CRC64: 4, Created: now.Add(time.Hour), Ended: now,
	}
	want := in
	want.Expires = now.Add(48 * time.Hour)
	want.State, want.Bytes, want.Parts, want.Revision, want.Size, want.CRC64 = metastore.UploadOpen, 0, 0, 0, 0, 0
	want.Created, want.Touched, want.Ended = now, now, time.Time{}
	got := dbtest.Value(p.Store.BeginUpload(p.Ctx, in))
	want.Revision = got.Revision // any initial number
	p.Equal(got, want, "begun upload")
	p.Reopen()
	p.Equal(p.Upload("upload"), want, "begun upload")
	p.Is(dbtest.Error(p.Store.Blob(p.Ctx, "a\xff", "n\x00")), database.ErrNotFound, "blob before the commit")

	p.Clock.Advance(time.Minute)
	e1 := p.part("upload", 1, 7)
	e0 := p.extents(0, 1<<30)
	p.OK(p.Store.PutPart(p.Ctx, "upload", metastore.Part{Size: 1 << 30, CRC64: 1}, e0), "part 0")
	open := p.Upload("upload")
	p.Must(open.Revision > want.Revision, "the revision did not increase")
	want.Revision, want.Bytes, want.Parts, want.Touched = open.Revision, 1<<30+7, 2, p.Clock.Now()
	p.Equal(open, want, "upload with parts")

	p.Clock.Advance(time.Minute)
	done := dbtest.Value(p.Store.CompleteUpload(p.Ctx, "upload", want.Revision, 1<<30+7, 1<<63+5, nil))
	want.State, want.Size, want.CRC64 = metastore.UploadCommitted, 1<<30+7, 1<<63+5
	want.Ended, want.Modified = p.Clock.Now(), p.Clock.Now()
	want.Parts, want.ContentType, want.Metadata = 0, "", "" // not retained
	p.Equal(done, want, "completed upload")
	p.Reopen()
	p.Equal(p.Upload("upload"), want, "completed upload")
	b := dbtest.Value(p.Store.Blob(p.Ctx, "a\xff", "n\x00"))
	p.Equal(b, metastore.Blob{
		Account: "a\xff", Name: "n\x00", Content: in.Content, Size: 1<<30 + 7, CRC64: 1<<63 + 5, PartSize: 1 << 30,
		ContentType: "x/y", Metadata: "m\x00\xff", Modified: want.Modified, Expires: want.Expires,
	}, "blob")
	p.Equal(p.allExtents(b.Content), stored(append(e0, e1)...), "extents")
	p.Must(len(p.Garbage()) == 0, "an upload without a repeated part created garbage")

	u := p.Begin("empty", "a", "empty")
	dbtest.Value(p.Store.CompleteUpload(p.Ctx, "empty", u.Revision, 0, 0, nil))
	b = dbtest.Value(p.Store.Blob(p.Ctx, "a", "empty"))
	p.Must(b.Size == 0 && len(p.allExtents(b.Content)) == 0, "the empty blob is not empty")
	_, err := p.Store.BeginUpload(p.Ctx, metastore.Upload{ID: "empty", Content: p.Content()})
	p.Must(err != nil, "two uploads have the same id")
}

func uploadParts(p *probe) {
	u := p.Begin("upload", "a", "name")
	want := map[int]metastore.Extent{}
	times := map[int]time.Time{}
	dropped := 0
	for i, index := range []int{9, 3, 99_999, 0, 3, 1, 3, 9, 2} {
		if _, again := want[index]; again {
			dropped++
		}
		before := p.Upload("upload").Revision
		p.Clock.Advance(time.Second)
		times[index] = p.Clock.Now()
		want[index] = p.part("upload", index, int64(10+i))
		p.Must(p.Upload("upload").Revision > before, "the revision did not increase with part %d", index)
	}
	var parts []metastore.Part
	var bytes int64
	for _, index := range []int{0, 1, 2, 3, 9, 99_999} {
		size := want[index].Size
		parts = append(parts, metastore.Part{Index: index, Size: size, CRC64: uint64(size), Stored: times[index]})
		bytes += size
	}
	p.Must(p.Upload("upload").Bytes == bytes, "bytes are %d, want %d", p.Upload("upload").Bytes, bytes)
	for after := -1; after < 11; after++ {
		first := slices.IndexFunc(parts, func(q metastore.Part) bool { return q.Index > after })
		for limit := 1; limit < 8; limit++ {
			got := dbtest.Value(p.Store.Parts(p.Ctx, "upload", after, limit))
			p.Equal(got, parts[first:min(first+limit, len(parts))], "parts after %d in pages of %d", after, limit)
		}
	}
	got := dbtest.Value(p.Store.Parts(p.Ctx, "upload", 99_999, 5))
	p.Must(len(got) == 0, "parts after the last one")
	garbage := p.Garbage()
	p.Must(len(garbage) == dropped, "%d contents are garbage after %d repeated parts", len(garbage), dropped)
	var keys []string
	for _, id := range garbage {
		p.Must(id != u.Content, "the content of an open upload is garbage")
		for _, e := range p.allExtents(id) {
			p.Must(want[e.Part].Object != e.Object, "the newest extent of part %d is garbage", e.Part)
			keys = append(keys, e.Object)
		}
	}
	p.Must(len(keys) == dropped, "%d extents are garbage, want %d", len(keys), dropped)
	p.Complete("upload")
	b := dbtest.Value(p.Store.Blob(p.Ctx, "a", "name"))
	for _, e := range p.allExtents(b.Content) {
		p.Equal(e, stored(want[e.Part])[0], "extent of part %d", e.Part)
	}

	// A part of several extents, some of them inline, is stored again.
	p.Begin("second", "a", "second")
	for _, sum := range []string{"SUM a", "SUM b", ""} {
		extents := []metastore.Extent{p.Inline(4, 0, []byte("abc")), p.Extent(4, 3, 5), p.Inline(4, 8, []byte("de"))}
		p.OK(p.Store.PutPart(p.Ctx, "second", metastore.Part{Index: 4, Size: 10, Checksum: sum}, extents), "part")
		listed := dbtest.Value(p.Store.Parts(p.Ctx, "second", -1, 2))
		p.Equal(listed, []metastore.Part{{Index: 4, Size: 10, Checksum: sum, Stored: p.Clock.Now()}}, "the part")
		p.Equal(p.allExtents(p.Upload("second").Content), stored(extents...), "extents of the part")
	}
	fresh := 0
	for _, id := range p.Garbage() {
		if !slices.Contains(garbage, id) {
			fresh++
			list := p.allExtents(id)
			p.Must(len(list) == 3 && string(list[0].Body) == "abc", "a replaced part has the extents %+v", list)
		}
	}
	p.Must(fresh == 2, "%d contents became garbage for 2 replaced parts", fresh)
}

func uploadCompleteRepeated(p *probe) {
	p.Begin("upload", "a", "name")
	p.part("upload", 0, 5)
	done := p.Complete("upload")
	again := func(when string) {
		asked := func(*metastore.Blob) error { return errRefused }
		got, err := p.Store.CompleteUpload(p.Ctx, "upload", 12345, 999, 888, asked)
		p.OK(err, "repeated complete %s", when)
		p.Equal(got, done, "outcome %s", when)
	}
	again("immediately")
	p.Put("a", "name")
	again("after an overwrite")
	p.remove("a", "name")
	again("after a delete")
	p.Is(dbtest.Error(p.Store.Blob(p.Ctx, "a", "name")), database.ErrNotFound, "blob that a repeated complete must not restore")
	p.Clock.Advance(metastore.UploadRetention - time.Microsecond)
	p.Reopen()
	again("at the end of the retention")
}

func uploadCompletePrecondition(p *probe) {
	current, _ := p.Put("a", "name")
	p.Begin("upload", "a", "name")
	p.part("upload", 0, 5)
	before := p.Upload("upload")
	_, err := p.Store.CompleteUpload(p.Ctx, "upload", before.Revision, 5, 1, func(b *metastore.Blob) error {
		if b == nil || b.Content != current.Content {
			return fmt.Errorf("the precondition got %+v", b)
		}
		return errRefused
	})
	p.identical(err, errRefused, "complete")
	p.Equal(p.Upload("upload"), before, "upload after the refusal")
	p.Equal(dbtest.Value(p.Store.Blob(p.Ctx, "a", "name")), current, "blob after the refusal")
	p.Must(len(p.Garbage()) == 0, "the refusal created garbage")
	done := p.Complete("upload")
	p.Must(done.State == metastore.UploadCommitted, "complete after a refusal")
	p.Equal(p.Garbage(), []metastore.ContentID{current.Content}, "garbage after the complete")
}

func uploadCreateOnly(p *probe) {
	p.Put("a", "name")
	u := dbtest.Value(p.Store.BeginUpload(p.Ctx, metastore.Upload{ID: "upload", Account: "a", Name: "name", Content: p.Content(), CreateOnly: true}))
	_, err := p.Store.CompleteUpload(p.Ctx, "upload", u.Revision, 0, 0, createOnly)
	p.identical(err, errRefused, "complete with a precondition")
	p.Is(dbtest.Error(p.Store.CompleteUpload(p.Ctx, "upload", u.Revision, 0, 0, nil)), database.ErrExists, "complete without a precondition")
	p.Equal(p.Upload("upload"), u, "upload after refusals")
	p.remove("a", "name")
	p.Complete("upload")
}

// uploadExpired completes an upload after its blob has expired.
func uploadExpired(p *probe) {
	current, _ := p.Put("a", "name")
	expires := p.Clock.Now().Add(time.Hour)
	for _, id := range []string{"in time", "late"} {
		dbtest.Value(p.Store.BeginUpload(p.Ctx, metastore.Upload{
			ID: id, Account: "a", Name: map[string]string{"in time": "other", "late": "name"}[id],
			Content: p.Content(), PartSize: 100, Expires: expires,
		}))
		p.part(id, 0, 5)
	}
	p.Clock.Advance(time.Hour - time.Microsecond)
	done := p.Complete("in time")
	late := p.Upload("late")
	for range 2 {
		p.Clock.Advance(time.Microsecond)
		p.Is(dbtest.Error(p.Store.CompleteUpload(p.Ctx, "late", late.Revision, 5, 1, func(*metastore.Blob) error { return errRefused })), database.ErrExpired, "complete after the expiry")
		p.Equal(p.Upload("late"), late, "upload after the refusal")
	}
	p.Equal(dbtest.Value(p.Store.Blob(p.Ctx, "a", "name")), current, "blob after the refusals")
	p.Must(len(p.Garbage()) == 0, "the refusals created garbage")
	p.part("late", 1, 5)
	dbtest.Value(p.Store.AbortUpload(p.Ctx, "late"))
	p.Equal(dbtest.Value(p.Store.CompleteUpload(p.Ctx, "in time", 0, 0, 0, nil)), done, "outcome")
}

func uploadRevision(p *probe) {
	p.Begin("upload", "a", "name")
	p.part("upload", 0, 5)
	old := p.Upload("upload").Revision
	e := p.part("upload", 0, 6)
	before := p.Upload("upload")
	p.Is(dbtest.Error(p.Store.CompleteUpload(p.Ctx, "upload", old, 5, 1, nil)), metastore.ErrRevisionMismatch, "complete of a changed upload")
	p.Is(dbtest.Error(p.Store.Blob(p.Ctx, "a", "name")), database.ErrNotFound, "blob of a refused complete")
	p.Equal(p.Upload("upload"), before, "upload after a refused complete")
	p.Complete("upload")
	b := dbtest.Value(p.Store.Blob(p.Ctx, "a", "name"))
	p.Equal(p.allExtents(b.Content), stored(e), "extents")
}

func uploadAbort(p *probe) {
	u := p.Begin("upload", "a", "name")
	e := p.part("upload", 0, 5)
	p.Clock.Advance(time.Second)
	for range 2 {
		p.Equal(dbtest.Value(p.Store.AbortUpload(p.Ctx, "upload")), u.Content, "content")
		p.Equal(p.Garbage(), []metastore.ContentID{u.Content}, "garbage")
		p.Equal(p.allExtents(u.Content), stored(e), "extents of an aborted upload")
	}
	got := p.Upload("upload")
	p.Must(got.State == metastore.UploadAborted && got.Ended.Equal(p.Clock.Now()), "aborted upload is %+v", got)
	p.Must(got.Bytes == 5 && got.Parts == 0 && got.ContentType == "" && got.Metadata == "", "of the aborted upload %+v is retained", got)
	p.Is(dbtest.Error(p.Store.Blob(p.Ctx, "a", "name")), database.ErrNotFound, "blob of an aborted upload")
}

// uploadEnded calls every method on uploads that are unknown or have ended.
func uploadEnded(p *probe) {
	p.Begin("aborted", "a", "aborted")
	dbtest.Value(p.Store.AbortUpload(p.Ctx, "aborted"))
	p.Begin("committed", "a", "committed")
	e := p.part("committed", 0, 5)
	done := p.Complete("committed")
	for id, want := range map[string]error{
		"unknown": database.ErrNotFound, "aborted": metastore.ErrAborted, "committed": metastore.ErrCommitted,
	} {
		before, _ := p.Store.Upload(p.Ctx, id)
		late := p.Extent(0, 0, 6)
		err := p.Store.PutPart(p.Ctx, id, metastore.Part{Size: 6}, []metastore.Extent{late})
		p.Is(err, want, "part of the upload %s", id)
		free := dbtest.Value(p.Store.Unreferenced(p.Ctx, []string{late.Object}))
		p.Must(len(free) == 1, "a part refused by the upload %s was stored", id)
		after, _ := p.Store.Upload(p.Ctx, id)
		p.Equal(after, before, "upload %s after a part it refused", id)
	}
	p.Is(dbtest.Error(p.Store.CompleteUpload(p.Ctx, "aborted", p.Upload("aborted").Revision, 0, 0, nil)), metastore.ErrAborted, "complete of an aborted upload")
	p.Is(dbtest.Error(p.Store.CompleteUpload(p.Ctx, "unknown", 0, 0, 0, nil)), database.ErrNotFound, "complete of an unknown upload")
	p.Is(dbtest.Error(p.Store.AbortUpload(p.Ctx, "committed")), metastore.ErrCommitted, "abort of a committed upload")
	p.Is(dbtest.Error(p.Store.AbortUpload(p.Ctx, "unknown")), database.ErrNotFound, "abort of an unknown upload")
	p.Is(dbtest.Error(p.Store.Upload(p.Ctx, "unknown")), database.ErrNotFound, "unknown upload")
	p.Is(dbtest.Error(p.Store.Parts(p.Ctx, "unknown", -1, 1)), database.ErrNotFound, "parts of an unknown upload")
	b := dbtest.Value(p.Store.Blob(p.Ctx, "a", "committed"))
	p.Must(b.Content == done.Content && b.CRC64 == done.CRC64, "a late part changed the blob")
	p.Equal(p.allExtents(b.Content), stored(e), "extents after a late part")
	p.Must(!p.isGarbage(b.Content), "the blob's content is garbage")
}

// uploadOutcome checks that an ended upload retains neither its parts, nor its ContentType and
// Metadata. Its blob has these two.
func uploadOutcome(p *probe) {
	for _, id := range []string{"aborted", "committed", "idle"} {
		dbtest.Value(p.Store.BeginUpload(p.Ctx, metastore.Upload{
			ID: id, Account: "a", Name: id, Content: p.Content(), PartSize: 100, ContentType: "x/y", Metadata: "m",
		}))
		for i := range 7 {
			p.part(id, i, 5)
		}
	}
	dbtest.Value(p.Store.AbortUpload(p.Ctx, "aborted"))
	p.Complete("committed")
	for _, id := range []string{"aborted", "committed"} { // before a purge
		u := p.Upload(id)
		p.Must(u.Bytes == 35 && u.Parts == 0 && u.ContentType == "" && u.Metadata == "", "the outcome of an upload is %+v", u)
	}
	p.Clock.Advance(metastore.UploadIdleLimit)
	for _, limit := range []int{3, 1000} {
		for n := 1; n > 0; {
			n = dbtest.Value(p.Store.Purge(p.Ctx, limit))
		}
		for _, id := range []string{"aborted", "committed", "idle"} {
			u := p.Upload(id)
			p.Must(u.State != metastore.UploadOpen && u.Bytes == 35 && u.Name == id && u.Parts == 0 && u.ContentType == "" && u.Metadata == "",
				"the outcome of an upload is %+v", u)
			parts := dbtest.Value(p.Store.Parts(p.Ctx, id, -1, 10))
			p.Must(len(parts) == 0, "an ended upload has %d parts", len(parts))
		}
	}
	b := dbtest.Value(p.Store.Blob(p.Ctx, "a", "committed"))
	p.Must(b.Size == 35 && b.ContentType == "x/y" && b.Metadata == "m", "the blob is %+v", b)
	p.Must(len(p.allExtents(b.Content)) == 7, "the blob has lost extents")
}

func uploadRetention(p *probe) {
	p.Begin("aborted", "a", "aborted")
	dbtest.Value(p.Store.AbortUpload(p.Ctx, "aborted"))
	p.Begin("committed", "a", "committed")
	p.part("committed", 3, 5)
	p.Complete("committed")
	p.Clock.Advance(metastore.UploadRetention - time.Microsecond)
	p.Upload("aborted")
	p.Must(p.Upload("committed").Bytes == 5, "the bytes of the outcome are %d", p.Upload("committed").Bytes)
	p.Clock.Advance(time.Microsecond)
	for range 2 {
		for _, id := range []string{"aborted", "committed"} {
			p.Is(dbtest.Error(p.Store.Upload(p.Ctx, id)), database.ErrNotFound, "upload %s after its retention", id)
			p.Is(dbtest.Error(p.Store.AbortUpload(p.Ctx, id)), database.ErrNotFound, "abort of %s after its retention", id)
			p.Is(dbtest.Error(p.Store.CompleteUpload(p.Ctx, id, 0, 0, 0, nil)), database.ErrNotFound, "complete of %s after its retention", id)
		}
		p.Purge()
	}
	b := dbtest.Value(p.Store.Blob(p.Ctx, "a", "committed"))
	p.Must(len(p.allExtents(b.Content)) == 1, "extents of the blob of an upload past its retention")
}

func uploadList(p *probe) {
	var open []string
	ids := []string{"m", "z", "a", "q", "b", "y", "c"}
	for i, id := range ids {
		p.Begin(id, "a", "same name")
		if i%3 != 0 { // some begin simultaneously
			p.Clock.Advance(time.Microsecond)
		}
	}
	p.Begin("foreign", "b", "same name")
	var created []time.Time
	list, _, err := p.Store.ListUploads(p.Ctx, "a", "", 100, 0)
	p.OK(err, "list")
	for _, u := range list {
		open = append(open, u.ID)
		created = append(created, u.Created)
		p.Equal(u, p.Upload(u.ID), "listed upload")
	}
	p.Must(slices.IsSortedFunc(created, time.Time.Compare), "uploads are not listed by creation: %q", open)
	sorted := slices.Clone(open)
	slices.Sort(sorted)
	slices.Sort(ids)
	p.Equal(sorted, ids, "open uploads")
	for i := -1; i < len(open); i++ {
		after := ""
		if i >= 0 {
			after = open[i]
		}
		for limit := 1; limit <= len(open); limit++ {
			p.Equal(p.uploadIDs(after, limit), slices.Clone(open[i+1:min(i+1+limit, len(open))]), "uploads after %q in pages of %d", after, limit)
		}
	}
	dbtest.Value(p.Store.AbortUpload(p.Ctx, open[2]))
	p.Complete(open[3])
	p.Equal(p.uploadIDs("", 100), append(slices.Clone(open[:2]), open[4:]...), "uploads without the ended ones")
	p.Equal(p.uploadIDs(open[2], 100), slices.Clone(open[4:]), "uploads after an ended one")
	p.Begin("long", "a", strings.Repeat("n", 3000))
	charge := int64(database.EntryCharge + len("same name"))
	for bytes, want := range map[int64]int{1: 1, charge: 1, 2*charge - 1: 1, 2 * charge: 2, 5 * charge: 5, 6 * charge: 5, 5*charge + 2999 + database.EntryCharge: 5, 5*charge + 3000 + database.EntryCharge: 6} {
		list, more, err := p.Store.ListUploads(p.Ctx, "a", "", 100, bytes)
		p.OK(err, "list")
		p.Must(len(list) == want && more == (want < 6), "%d uploads in %d bytes, want %d; more is %v", len(list), bytes, want, more)
	}
	_, _, err = p.Store.ListUploads(p.Ctx, "a", "unknown", 10, 0)
	p.Is(err, database.ErrNotFound, "uploads after an unknown one")
}

func (p *probe) uploadIDs(after string, limit int) []string {
	list, more, err := p.Store.ListUploads(p.Ctx, "a", after, limit, 0)
	p.OK(err, "list")
	all, _, err := p.Store.ListUploads(p.Ctx, "a", after, 100, 0)
	p.OK(err, "list all")
	p.Must(more == (len(all) > len(list)), "%d of %d uploads in a page of %d: more is %v", len(list), len(all), limit, more)
	ids := []string{}
	for _, u := range list {
		ids = append(ids, u.ID)
	}
	return ids
}

// uploadsByName walks through uploads in the order of their names, from each place and in pages of
// each size.
func uploadsByName(p *probe) {
	long := strings.Repeat("n", 600)
	names := []string{"b", "a", "a\xff", "ab", "b", long + "b", long + "a", "b", "\x00", "a/b"}
	for i, name := range names {
		p.Begin(fmt.Sprintf("id%c", 'z'-i), "a", name)
		if i%3 != 0 { // some begin simultaneously
			p.Clock.Advance(time.Microsecond)
		}
	}
	p.Begin("foreign", "b", "b")
	dbtest.Value(p.Store.AbortUpload(p.Ctx, p.Begin("ended", "a", "b").ID))
	all := p.byName(metastore.UploadsQuery{Limit: 100})
	p.Must(len(all) == len(names) && slices.IsSortedFunc(all, compareUploads), "the uploads by name are %+v", all)
	for i, u := range all {
		p.Equal(u, p.Upload(u.ID), "listed upload")
		for limit := 1; limit <= len(all); limit++ {
			got := p.byName(metastore.UploadsQuery{AfterName: u.Name, AfterID: u.ID, Limit: limit})
			p.Equal(got, slices.Clone(all[i+1:min(i+1+limit, len(all))]), "uploads after %q in pages of %d", u.ID, limit)
		}
		from := p.byName(metastore.UploadsQuery{From: u.Name, Limit: 100})
		p.Must(len(from) > 0 && from[0].Name == u.Name, "uploads from %q on are %+v", u.Name, from)
		for _, later := range p.byName(metastore.UploadsQuery{AfterName: u.Name, Limit: 100}) {
			p.Must(later.Name > u.Name, "%q is after %q", later.Name, u.Name)
		}
	}
	p.Equal(p.byName(metastore.UploadsQuery{From: "b", AfterName: "a", Limit: 100}), p.byName(metastore.UploadsQuery{From: "b", Limit: 100}), "uploads from a place before From")
	p.Equal(p.byName(metastore.UploadsQuery{AfterName: "b", AfterID: "ended", Limit: 1})[0].Name, long+"a", "the upload after one that has ended")
	for id, name := range map[string]string{"unknown": "b", "foreign": "b", "ended": "a"} {
		_, _, err := p.Store.UploadsByName(p.Ctx, metastore.UploadsQuery{Account: "a", AfterName: name, AfterID: id, Limit: 1})
		p.Is(err, database.ErrNotFound, "uploads after %s of %s", id, name)
	}
	list, more, err := p.Store.UploadsByName(p.Ctx, metastore.UploadsQuery{Account: "a", Limit: 100, Bytes: 1})
	p.OK(err, "list")
	p.Must(len(list) == 1 && more, "%d uploads in a byte; more is %v", len(list), more)
}

func compareUploads(a, b metastore.Upload) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
}

// byName returns a page, and checks whether more follow it.
func (p *probe) byName(q metastore.UploadsQuery) []metastore.Upload {
	q.Account = "a"
	list, more, err := p.Store.UploadsByName(p.Ctx, q)
	p.OK(err, "list by name")
	q.Limit = 100
	all, _, err := p.Store.UploadsByName(p.Ctx, q)
	p.OK(err, "list all by name")
	p.Must(more == (len(all) > len(list)), "%d of %d uploads: more is %v", len(list), len(all), more)
	return slices.Clip(slices.Clone(list))
}
