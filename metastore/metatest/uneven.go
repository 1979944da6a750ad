package metatest

import (
	"errors"
	"fmt"
	"slices"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/database/whole"
	"sluice/metastore"
)

var unevenChecks = []dbtest.Check{
	check("uneven/complete", unevenComplete),
	check("uneven/even", unevenEven),
	check("uneven/unchosen", unevenUnchosen),
	check("uneven/many", unevenMany),
	check("uneven/refused", unevenRefused),
	check("uneven/empty", unevenEmpty),
	check("uneven/repeated", unevenRepeated),
	check("uneven/garbage", unevenGarbage),
	check("uneven/copies", unevenCopies),
	check("uneven/usage", unevenUsage),
	check("uneven/race", unevenRace),
}

// beginUneven begins an upload of uneven parts for owner x.
func (p *probe) beginUneven(id, name string) metastore.Upload {
	return dbtest.Value(p.Store.BeginUpload(p.Ctx, metastore.Upload{ID: id, Account: "a", Name: name, Content: p.Content(), Owner: "x"}))
}

// piece stores a part of these extents. Only one with a large index keeps a checksum.
func (p *probe) piece(id string, index int, extents ...metastore.Extent) metastore.Part {
	part := metastore.Part{Index: index, CRC64: uint64(index)}
	if index > 6 {
		part.Checksum = fmt.Sprint("SUM ", index)
	}
	for _, e := range extents {
		part.Size += e.Size
	}
	p.OK(p.Store.PutPart(p.Ctx, id, part, extents), "part %d", index)
	return part
}

// choose completes an upload with these parts.
func (p *probe) choose(id string, parts ...metastore.Part) (metastore.Upload, metastore.Blob) {
	done, err := p.Store.CompleteUneven(p.Ctx, id, p.Upload(id).Revision, parts, 42, "", nil)
	p.OK(err, "completion of %s", id)
	return done, dbtest.Value(p.Store.Blob(p.Ctx, done.Account, done.Name))
}

// ranges returns where the parts are in the content that consists of them.
func ranges(parts ...metastore.Part) []metastore.PartRange {
	var list []metastore.PartRange
	var start int64
	for _, part := range parts {
		list = append(list, metastore.PartRange{Index: part.Index, Start: start, Size: part.Size, Checksum: part.Checksum})
		start += part.Size
	}
	return list
}

// placed returns extents as ExtentsAt returns them.
func placed(where []metastore.PartRange, extents ...metastore.Extent) []metastore.Extent {
	list := stored(extents...)
	for i := range list {
		list[i].Start = where[slices.IndexFunc(where, func(r metastore.PartRange) bool { return r.Index == list[i].Part })].Start
	}
	return list
}

// uneven ends the check unless a content has these parts, and these extents wherever it is read.
func (p *probe) uneven(b metastore.Blob, where []metastore.PartRange, extents []metastore.Extent, after string) {
	p.Must(b.PartSize == metastore.UnevenParts, "the PartSize is %d after %s", b.PartSize, after)
	p.Equal(p.allExtents(b.Content), stored(extents...), "extents after %s", after)
	want := placed(where, extents...)
	for _, limit := range []int{1, 2, len(want) + 1} {
		for i, e := range want {
			for _, off := range []int64{0, e.Size / 2, e.Size - 1} {
				got := dbtest.Value(p.Store.ExtentsAt(p.Ctx, b.Content, e.Start+e.Offset+off, limit))
				p.Equal(got, want[i:min(i+limit, len(want))], "extents at byte %d after %s", e.Start+e.Offset+off, after)
			}
		}
		for i := -1; i < len(where); i++ {
			last := -1
			if i >= 0 {
				last = where[i].Index
			}
			got, total, err := p.Store.PartRanges(p.Ctx, b.Content, last, limit)
			p.OK(err, "parts after %s", after)
			page := where[i+1 : min(i+1+limit, len(where))]
			p.Must(slices.Equal(got, page) && total == len(where), "the parts behind %d are %+v of %d after %s, want %+v", last, got, total, after, page)
		}
	}
	p.Must(len(dbtest.Value(p.Store.ExtentsAt(p.Ctx, b.Content, b.Size, 9))) == 0, "there are extents behind the content after %s", after)
}

// even ends the check unless a content has even parts.
func (p *probe) even(b metastore.Blob, size int64, extents []metastore.Extent) {
	p.Must(b.PartSize == size, "the PartSize is %d, want %d", b.PartSize, size)
	p.Equal(p.allExtents(b.Content), stored(extents...), "extents")
	list, total, err := p.Store.PartRanges(p.Ctx, b.Content, -1, 9)
	p.OK(err, "parts")
	p.Must(len(list) == 0 && total == 0, "a content of even parts has the rows %+v", list)
	p.Must(len(dbtest.Value(p.Store.ExtentsAt(p.Ctx, b.Content, 0, 9))) == 0, "a content of even parts is read as an uneven one")
}

// unevenComplete completes uploads of parts that have several extents, gaps and any size.
func unevenComplete(p *probe) {
	p.beginUneven("upload", "name")
	large := append(p.extents(7, metastore.MaxExtentSize+5), p.Inline(7, metastore.MaxExtentSize+5, []byte("end")))
	small := []metastore.Extent{p.Inline(2, 0, []byte("a"))}
	last := []metastore.Extent{p.Extent(9_999, 0, 3), p.Extent(9_999, 3, 4)}
	third := p.piece("upload", 9_999, last...)
	first := p.piece("upload", 2, small...)
	second := p.piece("upload", 7, large...)
	before := p.Upload("upload")
	p.Must(before.PartSize == 0 && before.Parts == 3, "the open upload is %+v", before)
	done, b := p.choose("upload", first, second, third)
	p.Must(done.State == metastore.UploadCommitted && done.Size == before.Bytes && done.CRC64 == 42 && done.Parts == 0, "the outcome is %+v", done)
	p.Equal(p.Upload("upload"), done, "outcome")
	p.Must(b.Size == before.Bytes && b.CRC64 == 42 && b.Content == before.Content && b.Owner == "x", "the blob is %+v", b)
	all := slices.Concat(small, large, last)
	p.uneven(b, ranges(first, second, third), all, "the completion")
	p.Must(len(p.Garbage()) == 0, "a completion with all parts created garbage")
	p.Reopen()
	p.uneven(b, ranges(first, second, third), all, "a reopen")
	_, opened, err := p.Store.OpenBlob(p.Ctx, "a", "name")
	p.OK(err, "open")
	p.Must(len(opened) == 0, "a blob without part 0 was opened with %+v", opened)

	// A content that begins with part 0 is opened with its first extent.
	p.beginUneven("second", "second")
	zero, one := []metastore.Extent{p.Extent(0, 0, 5)}, []metastore.Extent{p.Extent(1, 0, 9)}
	parts := []metastore.Part{p.piece("second", 0, zero...), p.piece("second", 1, one...)}
	_, b = p.choose("second", parts...)
	p.uneven(b, ranges(parts...), slices.Concat(zero, one), "a larger last part")
	_, opened, err = p.Store.OpenBlob(p.Ctx, "a", "second")
	p.OK(err, "open")
	p.Equal(opened, stored(zero...), "first extent")
}

// unevenEven chooses parts that an upload with a PartSize could have.
func unevenEven(p *probe) {
	for i, sizes := range [][]int64{{5}, {5, 5}, {5, 5, 5, 1}, {5, 5, 5}} {
		id := fmt.Sprint("upload", i)
		p.beginUneven(id, id)
		var parts []metastore.Part
		var extents []metastore.Extent
		for index, size := range sizes {
			e := p.Extent(index, 0, size)
			parts, extents = append(parts, p.piece(id, index, e)), append(extents, e)
		}
		_, b := p.choose(id, parts...)
		p.even(b, 5, extents)
		p.reads(b, stored(extents...), "an even completion")
	}
	p.beginUneven("sums", "sums")
	e := p.Extent(0, 0, 5)
	part := metastore.Part{Size: 5, Checksum: "SUM even"}
	p.OK(p.Store.PutPart(p.Ctx, "sums", part, []metastore.Extent{e}), "part with a checksum")
	_, b := p.choose("sums", part)
	p.uneven(b, ranges(part), []metastore.Extent{e}, "a completion with a checksum")
	p.Must(len(p.Garbage()) == 0, "the completions created garbage")
}

// unevenUnchosen completes uploads with some of their parts.
func unevenUnchosen(p *probe) {
	for i, c := range []struct {
		chosen []int
		even   int64
	}{
		{[]int{0, 1, 2}, 6}, {[]int{0, 1}, 6}, {[]int{0}, 6}, {[]int{1}, 0}, {[]int{0, 2, 4}, 0}, {[]int{3, 4}, 0}, {[]int{4}, 0}, {[]int{0, 1, 2, 3}, 0},
	} {
		id := fmt.Sprint("upload", i)
		p.beginUneven(id, id)
		var parts []metastore.Part
		var chosen, others []metastore.Extent
		for index, size := range []int64{6, 6, 4, 9, 2} {
			extents := []metastore.Extent{p.Extent(index, 0, size-1), p.Inline(index, size-1, []byte("x"))}
			part := p.piece(id, index, extents...)
			if slices.Contains(c.chosen, index) {
				parts, chosen = append(parts, part), append(chosen, extents...)
			} else {
				others = append(others, extents...)
			}
		}
		done, b := p.choose(id, parts...)
		p.Must(done.Size == b.Size && b.Content == done.Content, "the outcome is %+v of the blob %+v", done, b)
		if c.even > 0 {
			p.even(b, c.even, chosen)
		} else {
			p.uneven(b, ranges(parts...), chosen, "a completion without all parts")
		}
		garbage := p.Garbage()
		p.Must(len(garbage) == 1 && garbage[0] != b.Content, "the parts %v were chosen, and %d contents are garbage", c.chosen, len(garbage))
		p.Equal(p.allExtents(garbage[0]), stored(others...), "extents that are garbage")
		p.drop()
		p.Equal(p.allExtents(b.Content), stored(chosen...), "extents after the garbage was dropped")
	}
}

// unevenMany chooses more parts than a statement inserts.
func unevenMany(p *probe) {
	p.beginUneven("upload", "name")
	var parts []metastore.Part
	for i := range 300 {
		parts = append(parts, p.piece("upload", 2*i, p.Inline(2*i, 0, []byte("abc")[:1+i%3])))
	}
	_, b := p.choose("upload", parts...)
	got, total, err := p.Store.PartRanges(p.Ctx, b.Content, -1, 1000)
	p.OK(err, "parts")
	p.Must(slices.Equal(got, ranges(parts...)) && total == 300, "of 300 parts %d are known", total)
	for _, r := range got {
		e := dbtest.Value(p.Store.ExtentsAt(p.Ctx, b.Content, r.Start, 1))
		p.Must(len(e) == 1 && e[0].Part == r.Index && e[0].Start == r.Start, "at byte %d is %+v", r.Start, e)
	}
}

// unevenRefused calls CompleteUneven with arguments that it must refuse.
func unevenRefused(p *probe) {
	current, _ := p.Put("a", "name")
	p.beginUneven("upload", "name")
	one, two := p.piece("upload", 1, p.Extent(1, 0, 5)), p.piece("upload", 2, p.Extent(2, 0, 7))
	before := p.Upload("upload")
	larger := metastore.Part{Index: 2, Size: 8}
	for name, parts := range map[string][]metastore.Part{
		"none": nil, "descending": {two, one}, "repeated": {one, one}, "an empty one, which is not the last": {{Index: 1}, two}, "negative": {{Index: -1, Size: 5}, two},
		"too large": {one, larger}, "too small": {one, {Index: 2, Size: 1}}, "more than there are": {{Size: 1}, {Index: 1, Size: 1}, {Index: 2, Size: 1}},
	} {
		_, err := p.Store.CompleteUneven(p.Ctx, "upload", before.Revision, parts, 1, "", nil)
		p.Must(err != nil, "parts that are refused (%s) were chosen", name)
		p.Equal(p.Upload("upload"), before, "upload after a refusal (%s)", name)
	}
	chosen := []metastore.Part{one}
	p.Is(dbtest.Error(p.Store.CompleteUneven(p.Ctx, "upload", before.Revision-1, chosen, 1, "", nil)), metastore.ErrRevisionMismatch, "an old revision")
	_, err := p.Store.CompleteUneven(p.Ctx, "upload", before.Revision, chosen, 1, "", createOnly)
	p.identical(err, errRefused, "complete")
	p.Must(dbtest.Error(p.Store.CompleteUpload(p.Ctx, "upload", before.Revision, 12, 1, nil)) != nil, "an upload of uneven parts was completed like an even one")
	p.Is(dbtest.Error(p.Store.CompleteUneven(p.Ctx, "unknown", 0, chosen, 1, "", nil)), database.ErrNotFound, "an unknown upload")
	p.Equal(p.Upload("upload"), before, "upload after the refusals")
	p.Equal(dbtest.Value(p.Store.Blob(p.Ctx, "a", "name")), current, "blob after the refusals")
	p.Must(len(p.Garbage()) == 0 && len(p.allExtents(before.Content)) == 2, "the refusals changed extents")

	u := p.Begin("even", "a", "even")
	e := p.part("even", 0, 5)
	p.Must(dbtest.Error(p.Store.CompleteUneven(p.Ctx, "even", p.Upload("even").Revision, []metastore.Part{{Size: e.Size}}, 1, "", nil)) != nil,
		"an upload with a PartSize of %d was completed as one without", u.PartSize)
	dbtest.Value(p.Store.AbortUpload(p.Ctx, "upload"))
	p.Is(dbtest.Error(p.Store.CompleteUneven(p.Ctx, "upload", before.Revision, chosen, 1, "", nil)), metastore.ErrAborted, "an aborted upload")
}

// unevenEmpty completes uploads with an empty last part, alone and after another.
func unevenEmpty(p *probe) {
	empty := metastore.Part{Index: 4}
	for _, before := range []int{0, 1} {
		id := fmt.Sprint("upload", before)
		p.beginUneven(id, id)
		var parts []metastore.Part
		if before > 0 {
			parts = append(parts, p.piece(id, 2, p.Extent(2, 0, 5)))
		}
		p.OK(p.Store.PutPart(p.Ctx, id, empty, nil), "an empty part")
		done := dbtest.Value(p.Store.CompleteUneven(p.Ctx, id, p.Upload(id).Revision, append(parts, empty), 0, "described", nil))
		b := dbtest.Value(p.Store.Blob(p.Ctx, "a", id))
		p.Must(done.Size == int64(5*before) && b.Size == done.Size, "the blob has %d bytes", b.Size)
		p.Equal(b.Metadata, "described", "the metadata")
		p.Must(len(p.allExtents(b.Content)) == before, "the blob has the extents %+v", p.allExtents(b.Content))
	}
	p.Must(len(p.Garbage()) == 0, "empty parts became garbage")
}

// unevenRepeated repeats a completion with other arguments.
func unevenRepeated(p *probe) {
	p.beginUneven("upload", "name")
	one, two := p.piece("upload", 1, p.Extent(1, 0, 5)), p.piece("upload", 2, p.Extent(2, 0, 7))
	done, b := p.choose("upload", one, two)
	for range 2 {
		again, err := p.Store.CompleteUneven(p.Ctx, "upload", 99, []metastore.Part{two}, 7, "", func(*metastore.Blob) error { return errRefused })
		p.OK(err, "a repeated completion")
		p.Equal(again, done, "outcome")
		p.Equal(dbtest.Value(p.Store.CompleteUpload(p.Ctx, "upload", 99, 1, 7, nil)), done, "outcome")
	}
	p.Must(len(p.Garbage()) == 0, "a repeated completion created garbage")
	got, total, err := p.Store.PartRanges(p.Ctx, b.Content, -1, 9)
	p.OK(err, "parts")
	p.Must(slices.Equal(got, ranges(one, two)) && total == 2, "the parts are %+v", got)
}

// unevenGarbage reads a content until it is dropped, by each method that does that.
func unevenGarbage(p *probe) {
	for i, drop := range []func(id metastore.ContentID, extents []metastore.Extent){
		func(id metastore.ContentID, _ []metastore.Extent) {
			p.OK(p.Store.DropContents(p.Ctx, []metastore.ContentID{id}), "drop contents")
		},
		func(id metastore.ContentID, extents []metastore.Extent) {
			p.OK(p.Store.DropExtents(p.Ctx, id, positions(extents)), "drop extents")
			p.OK(p.Store.DropContent(p.Ctx, id), "drop content")
		},
	} {
		id := fmt.Sprint("upload", i)
		p.beginUneven(id, id)
		extents := []metastore.Extent{p.Extent(1, 0, 5), p.Extent(3, 0, 7)}
		parts := []metastore.Part{p.piece(id, 1, extents[0]), p.piece(id, 3, extents[1])}
		_, b := p.choose(id, parts...)
		p.Put("a", id)
		p.Equal(p.Garbage(), []metastore.ContentID{b.Content}, "garbage")
		p.uneven(b, ranges(parts...), extents, "the replacement") // its readers go on
		drop(b.Content, extents)
		list, total, err := p.Store.PartRanges(p.Ctx, b.Content, -1, 9)
		p.OK(err, "parts")
		p.Must(len(list) == 0 && total == 0 && len(p.Garbage()) == 0, "%d parts of a dropped content are known", total)
	}
}

// unevenCopies copies, moves and deletes blobs with uneven contents.
func unevenCopies(p *probe) {
	for i, parts := range [][]metastore.Extent{
		{p.Extent(1, 0, 5), p.Extent(3, 0, 7)},
		{p.Inline(4, 0, []byte("inline"))}, // not copied like an inline content in part 0
	} {
		id := fmt.Sprint("upload", i)
		p.beginUneven(id, "name")
		var chosen []metastore.Part
		for _, e := range parts {
			chosen = append(chosen, p.piece(id, e.Part, e))
		}
		_, b := p.choose(id, chosen...)
		copied := p.copied(b, metastore.Blob{Account: "b", Name: "copy"})
		p.uneven(copied, ranges(chosen...), parts, "a copy")
		moved := dbtest.Value(p.Store.MoveBlob(p.Ctx, metastore.Move{From: blobName(b), To: named("moved")}))
		p.uneven(moved, ranges(chosen...), parts, "a move")
		p.remove("a", "moved")
		p.Must(len(p.Garbage()) == 0, "the content of a copy is garbage")
		p.uneven(copied, ranges(chosen...), parts, "the deletion of the original")
		p.remove("b", "copy")
		p.Equal(p.Garbage(), []metastore.ContentID{copied.Content}, "garbage")
		p.drop()
	}
}

// unevenUsage checks the usage of parts that are not chosen.
func unevenUsage(p *probe) {
	const row = metastore.RowCharge
	p.beginUneven("upload", "name")
	one := p.piece("upload", 1, p.Extent(1, 0, 5))
	p.piece("upload", 2, p.Extent(2, 0, 70))
	three := p.piece("upload", 3, p.Extent(3, 0, 9))
	p.piece("upload", 4, p.Extent(4, 0, 800))
	outcome := row + int64(len("name"))
	before := dbtest.Value(p.Store.Usage(p.Ctx, "x"))
	p.Equal(before, metastore.Used{Bytes: 884, Uploads: 1, Objects: 4, Names: 4, Retained: outcome}, "usage before")
	p.choose("upload", one, three)
	after := dbtest.Value(p.Store.Usage(p.Ctx, "x"))
	p.Equal(after, metastore.Used{Bytes: 14, Objects: 1, Names: 4, Retained: outcome + 870 + 2*row}, "usage after")
	p.Must(after.Occupied() <= before.Occupied(), "a completion has increased the occupied bytes")
	p.drop()
	p.retains("x", outcome, "freeing the parts")
	p.Purge()
	p.retains("x", outcome, "a purge")
}

// unevenRace completes uploads with two of three parts, concurrently with parts that are sent
// again, with other completions and with an abort, over two handles.
func unevenRace(p *probe) {
	handles := []whole.Database{p.Store, p.Open()}
	for round := range 10 {
		id, name := fmt.Sprint("upload", round), fmt.Sprint("name", round)
		p.beginUneven(id, name)
		var led ackedExtents
		for i := range 3 {
			led.acked = append(led.acked, p.part(id, 3*i, int64(10+i)))
		}
		extents := make([]metastore.Extent, 9)
		for i := range extents {
			extents[i] = p.Extent(i%3*3, 0, int64(20+i))
		}
		errs := dbtest.Race(len(extents)+5, func(i int) error {
			s := handles[i%2]
			switch {
			case i < len(extents):
				return led.resend(p, s, id, extents[i])
			case i < len(extents)+4:
				return chooseTwo(p, s, id)
			case round%3 == 0:
				_, err := s.AbortUpload(p.Ctx, id)
				return ended(err)
			}
			return nil
		})
		p.OK(errors.Join(errs...), "round %d", round)
		if p.Upload(id).State == metastore.UploadOpen {
			p.OK(chooseTwo(p, p.Store, id), "completion after the race")
		}
		p.chosenTwo(id, name, led.acked)
	}
}

// chooseTwo completes an upload with its first and its last part, unless it changes meanwhile.
func chooseTwo(p *probe, s whole.Database, id string) error {
	u, err := s.Upload(p.Ctx, id)
	if err != nil {
		return err
	}
	parts, err := s.Parts(p.Ctx, id, -1, 10)
	if err != nil || len(parts) != 3 {
		return err
	}
	// If a part has come since the upload was looked up, the revision has changed, too.
	_, err = s.CompleteUneven(p.Ctx, id, u.Revision, []metastore.Part{parts[0], parts[2]}, 1, "", nil)
	if errors.Is(err, metastore.ErrRevisionMismatch) {
		return nil
	}
	return ended(err)
}

// chosenTwo checks that every acknowledged extent is live or garbage, once, and that the blob has
// its two parts.
func (p *probe) chosenTwo(id, name string, acked []metastore.Extent) {
	known := map[string]int{}
	for _, g := range p.Garbage() {
		for _, e := range p.allExtents(g) {
			known[e.Object]++
		}
	}
	if u := p.Upload(id); u.State == metastore.UploadCommitted {
		b := dbtest.Value(p.Store.Blob(p.Ctx, "a", name))
		live := dbtest.Value(p.Store.ExtentsAt(p.Ctx, b.Content, 0, 10))
		p.Must(len(live) == 2 && live[0].Part == 0 && live[1].Part == 6 && live[1].Start == live[0].Size && b.Size == live[0].Size+live[1].Size,
			"the blob of %d bytes has the extents %+v", b.Size, live)
		p.Equal(len(p.allExtents(b.Content)), 2, "extents")
		for _, e := range live {
			known[e.Object]++
		}
	}
	for _, e := range acked {
		p.Must(known[e.Object] == 1, "the acknowledged extent of part %d is known %d times", e.Part, known[e.Object])
	}
	p.drop()
}
