package metatest

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/metastore"
)

var copyChecks = []dbtest.Check{
	check("copies/copy", copyMembers),
	check("copies/keep-date", copyKeepsDates),
	check("copies/contents", copyContents),
	check("copies/onto-itself", copyOntoItself),
	check("copies/over", copyOver),
	check("copies/errors", copyErrors),
	check("copies/preconditions", copyPreconditions),
	check("copies/expiry", copyExpiry),
	check("copies/dates", copyDates),
	check("copies/last-blob", copyLastBlob),
	check("copies/delete", copyDelete),
}

// copyKeepsDates: a blob that is restated by a copy onto itself can keep its date, and one that is
// copied to another name cannot.
func copyKeepsDates(p *probe) {
	extents := []metastore.Extent{p.Inline(0, 0, []byte("xy"))}
	p.put(metastore.Blob{Account: "a", Name: "name", Owner: "x", Metadata: "m"}, extents...)
	b := p.put(metastore.Blob{Account: "a", Name: "name", Owner: "x", Metadata: "m"}, extents...)
	p.Clock.Advance(time.Minute)
	b.Metadata, b.Owner = "another", "y"
	to := b
	to.Modified, to.SharedSecond = p.Clock.Now(), false // are ignored
	got, err := p.Store.CopyBlob(p.Ctx, metastore.Copy{From: blobName(b), To: to, Restated: true, KeepDate: true})
	p.OK(err, "copy onto itself")
	p.Equal(got, b, "the blob")
	p.reads(b, stored(extents...), "the copy onto itself")
	p.Must(len(p.Garbage()) == 1, "the copy made garbage")
	other := dbtest.Value(p.Store.CopyBlob(p.Ctx, metastore.Copy{From: blobName(b), To: metastore.Blob{Account: "a", Name: "other"}, KeepDate: true}))
	p.Equal(other.Modified, p.Clock.Now(), "the other blob's date")
	p.Audited()
}

// copyMembers copies a blob with all members set, within its account and into other accounts, with
// short and long names, and restates the members that a writer states.
func copyMembers(p *probe) {
	extents := []metastore.Extent{p.Extent(0, 0, dbtest.MiB+1), p.Inline(0, dbtest.MiB+1, []byte("xy"))}
	source := p.put(metastore.Blob{
		Account: "a", Name: "source", CRC64: 1 << 63, SHA256: bytes.Repeat([]byte{0, 0xff}, 16), ContentType: "text/\xff",
		Metadata: "\x00m\n", Owner: "x", Expires: p.Clock.Now().Add(time.Hour),
	}, extents...)
	p.Clock.Advance(time.Minute)
	soon := p.Clock.Now().Add(time.Hour + 999*time.Nanosecond)
	long := string(bytes.Repeat([]byte("n"), 3000))
	all := []metastore.Blob{source}
	for _, to := range []metastore.Blob{
		{Account: "a", Name: "copy"}, {Account: "a", Name: "source1", Owner: "x"}, {Account: "b", Name: "source", Owner: "y"},
		{Account: "", Name: "", Expires: soon}, {Account: "a", Name: long}, {Account: "a", Name: long + "1", Owner: "z", Expires: soon},
	} {
		for _, restated := range []bool{false, true} {
			to.ContentType, to.Metadata = "image/x", "another"
			// All other members of To are ignored.
			to.Content, to.Size, to.CRC64, to.PartSize, to.SHA256, to.Modified, to.SharedSecond = p.Content(), 7, 7, 7, []byte("7"), soon, true
			p.Clock.Advance(time.Second)
			got, err := p.Store.CopyBlob(p.Ctx, metastore.Copy{From: blobName(source), To: to, Restated: restated})
			p.OK(err, "copy")
			want := source
			want.Account, want.Name, want.Owner, want.Expires = to.Account, to.Name, to.Owner, to.Expires.Truncate(time.Microsecond)
			if restated {
				want.ContentType, want.Metadata = to.ContentType, to.Metadata
			}
			want.Modified = p.Clock.Now()
			p.Equal(got, want, "copy to %.40q, restated: %v", to.Name, restated)
			if !restated {
				p.reads(want, stored(extents...), "the copy")
			} else {
				all = append(all, want)
			}
		}
	}
	for _, b := range all {
		p.reads(b, stored(extents...), "all copies")
	}
	p.Must(len(p.Garbage()) == 0, "copies made garbage")
	p.Reopen()
	for _, b := range all {
		p.reads(b, stored(extents...), "a reopen")
	}
	p.Audited()
}

// copyContents copies contents of every kind. A copy has its content when the source is gone, and
// the objects of both are referred to once.
func copyContents(p *probe) {
	cases := []struct {
		name    string
		own     bool // whether a copy has a content of its own
		extents []metastore.Extent
	}{
		{"empty", true, nil},
		{"inline", true, []metastore.Extent{p.Inline(0, 0, []byte("\x00abc"))}},
		{"object", false, []metastore.Extent{p.Extent(0, 0, 5)}},
		{"two inline", false, []metastore.Extent{p.Inline(0, 0, []byte("a")), p.Inline(0, 1, []byte("b"))}},
		{"inline first", false, []metastore.Extent{p.Inline(0, 0, []byte("a")), p.Extent(0, 1, 5)}},
		{"huge", false, p.extents(0, 3*metastore.MaxExtentSize+1)},
	}
	many := make([]metastore.Extent, 3000)
	for i := range many {
		many[i] = p.Extent(0, int64(i), 1)
	}
	cases = append(cases, struct {
		name    string
		own     bool
		extents []metastore.Extent
	}{"many", false, many})
	verify := func(source metastore.Blob, own bool, extents []metastore.Extent) {
		copied := p.copied(source, metastore.Blob{Account: "b", Name: source.Name})
		again := p.copied(copied, metastore.Blob{Account: "c", Name: source.Name})
		p.Must((copied.Content != source.Content) == own && (again.Content != copied.Content) == own && again.PartSize == source.PartSize,
			"%s: the source has the content %v, the copy %v and its copy %v of parts of %d bytes", source.Name, source.Content, copied.Content, again.Content, again.PartSize)
		p.remove("a", source.Name)
		p.remove("b", source.Name)
		p.Must(p.isGarbage(source.Content) == own && p.isGarbage(copied.Content) == own && !p.isGarbage(again.Content), "%s: wrong garbage after two deletions", source.Name)
		p.drop()
		p.Equal(p.allExtents(again.Content), extents, "%s: extents after the source and its copy are gone", source.Name)
		p.Equal(dbtest.Value(p.Store.Blob(p.Ctx, "c", source.Name)), again, "%s: the copy's copy", source.Name)
		p.remove("c", source.Name)
		p.Must(p.isGarbage(again.Content), "%s: the last content is not garbage", source.Name)
		p.Equal(p.allExtents(again.Content), extents, "%s: extents of the garbage", source.Name)
		p.drop()
		var keys []string
		for _, e := range extents[:min(1000, len(extents))] {
			if e.Object != "" {
				keys = append(keys, e.Object)
			}
		}
		free := dbtest.Value(p.Store.Unreferenced(p.Ctx, keys))
		p.Must(len(free) == len(keys), "%s: %d of %d objects are free after the last content was dropped", source.Name, len(free), len(keys))
		p.Audited()
	}
	for _, c := range cases {
		verify(p.put(metastore.Blob{Account: "a", Name: c.name, CRC64: 9}, c.extents...), c.own, stored(c.extents...))
	}
	for _, parts := range []int{0, 1, 3} {
		name := fmt.Sprint("parts ", parts)
		p.Begin(name, "a", name)
		var extents []metastore.Extent
		for i := range parts {
			extents = append(extents, p.part(name, i, 100))
		}
		p.Complete(name)
		verify(dbtest.Value(p.Store.Blob(p.Ctx, "a", name)), parts == 0, stored(extents...))
	}
	// An upload's only part may be inline, and need not be its first.
	p.Begin("inline part", "a", "inline part")
	e := p.Inline(4, 0, []byte("abc"))
	p.OK(p.Store.PutPart(p.Ctx, "inline part", metastore.Part{Index: 4, Size: 3}, []metastore.Extent{e}), "part")
	p.Complete("inline part")
	verify(dbtest.Value(p.Store.Blob(p.Ctx, "a", "inline part")), true, stored(e))
}

// copyOntoItself changes a blob's members that its writer states, and nothing else. The content
// does not become garbage, whether other blobs have it or not.
func copyOntoItself(p *probe) {
	for _, extents := range [][]metastore.Extent{nil, {p.Inline(0, 0, []byte("x"))}, {p.Extent(0, 0, 9)}} {
		for shared := range 2 {
			name := fmt.Sprint("name", len(extents), shared)
			b := p.put(metastore.Blob{Account: "a", Name: name, CRC64: 3, ContentType: "type", Metadata: "metadata", Owner: "x"}, extents...)
			if shared == 1 {
				p.copied(b, metastore.Blob{Account: "a", Name: name + " other"})
			}
			p.Clock.Advance(time.Second)
			want := b
			want.Modified, want.Owner, want.Expires = p.Clock.Now(), "y", p.Clock.Now().Add(time.Hour)
			got := p.copied(b, metastore.Blob{Account: "a", Name: name, Owner: "y", Expires: want.Expires, Metadata: "ignored"})
			p.Equal(got, want, "copy onto itself")
			p.reads(want, stored(extents...), "a copy onto itself")
			want.ContentType, want.Metadata, want.SharedSecond, want.Expires = "", "restated", true, time.Time{}
			p.Equal(p.restated(metastore.Blob{Account: "a", Name: name, Owner: "y", Metadata: "restated"}), want, "restated copy onto itself")
			p.reads(want, stored(extents...), "a restated copy onto itself")
			p.Must(len(p.Garbage()) == 0, "a copy onto itself made garbage")
			p.Equal(dbtest.Value(p.Store.Usage(p.Ctx, "x")), metastore.Used{}, "usage of the owner before")
			p.Equal(dbtest.Value(p.Store.Usage(p.Ctx, "y")), metastore.Used{Bytes: b.Size, Objects: 1, Names: int64(len(name + "restated"))}, "usage of the owner")
			p.Audited()
			p.remove("a", name)
			p.drop()
			if shared == 1 {
				p.remove("a", name+" other")
				p.drop()
			}
		}
	}
}

// copyOver copies over blobs: over one with another content, over one with the same, over one that
// has expired, and twice.
func copyOver(p *probe) {
	b, e := p.Put("a", "source")
	old, oldExtent := p.Put("a", "to")
	for round := range 3 {
		copied := p.copied(b, metastore.Blob{Account: "a", Name: "to"})
		p.Equal(copied.Content, b.Content, "content of copy %d", round)
		p.reads(copied, stored(e), "copy %d over a blob", round)
		p.Equal(p.Garbage(), []metastore.ContentID{old.Content}, "garbage")
		p.Audited()
	}
	p.Equal(p.allExtents(old.Content), stored(oldExtent), "extents of the garbage")
	other, otherExtent := p.Put("a", "other")
	over := p.copied(other, metastore.Blob{Account: "a", Name: "source"}) // "to" still has the content
	p.reads(over, stored(otherExtent), "a copy over a source")
	p.Must(!p.isGarbage(b.Content), "a content is garbage that another blob has")
	p.copied(other, metastore.Blob{Account: "a", Name: "to"})
	p.Must(p.isGarbage(b.Content), "the content of the last blob that was replaced is not garbage")
	p.Audited()
	p.drop()
	p.put(metastore.Blob{Account: "a", Name: "expired", Expires: p.Clock.Now().Add(time.Second)}, p.Extent(0, 0, 4))
	p.Clock.Advance(time.Second)
	_, err := p.Store.CopyBlob(p.Ctx, metastore.Copy{From: blobName(other), To: metastore.Blob{Account: "a", Name: "expired"}, Precondition: createOnly})
	p.OK(err, "copy over an expired blob")
	p.Must(len(p.Garbage()) == 1, "%d contents are garbage after a copy over an expired blob", len(p.Garbage()))
	p.Audited()
}

// copyErrors checks which error is returned, in which order, and that nothing changes.
func copyErrors(p *probe) {
	b, e := p.Put("a", "name")
	expired := p.put(metastore.Blob{Account: "a", Name: "expired", Expires: p.Clock.Now().Add(time.Minute)}, p.Extent(0, 0, 3))
	p.Clock.Advance(time.Minute)
	never := func(*metastore.Blob) error { return errors.New("a precondition was called") }
	for _, to := range []metastore.BlobName{named("to"), blobName(b), named("none")} {
		for from, cause := range map[metastore.BlobName]error{
			named("none"): database.ErrNotFound, {Account: "b", Name: "name"}: database.ErrNotFound, blobName(expired): database.ErrExpired,
		} {
			_, err := p.Store.CopyBlob(p.Ctx, metastore.Copy{From: from, To: metastore.Blob{Account: to.Account, Name: to.Name}, Source: never, Precondition: never})
			p.Is(err, metastore.ErrNoSource, "copy of %v", from)
			p.Is(err, cause, "copy of %v", from)
			_, err = p.Store.MoveBlob(p.Ctx, metastore.Move{From: from, To: to, Source: never, Precondition: never})
			p.Is(err, metastore.ErrNoSource, "move of %v", from)
			p.Is(err, cause, "move of %v", from)
		}
	}
	for _, from := range []metastore.BlobName{blobName(b), named("none")} {
		for _, expires := range []time.Time{p.Clock.Now(), p.Clock.Now().Add(-time.Hour), p.Clock.Now().Add(999 * time.Nanosecond)} {
			_, err := p.Store.CopyBlob(p.Ctx, metastore.Copy{From: from, To: metastore.Blob{Account: "a", Name: "to", Expires: expires}, Source: never, Precondition: never})
			p.Is(err, database.ErrExpired, "copy that expires at %v", expires)
			p.Must(!errors.Is(err, metastore.ErrNoSource), "copy that expires at %v: %v", expires, err)
		}
	}
	p.reads(b, stored(e), "errors")
	p.missing(named("to"), "a copy that failed")
	p.Must(len(p.Garbage()) == 0, "errors made garbage")
	p.Audited()
}

// errDestination is a destination's precondition's error, beside a source's errRefused.
var errDestination = errors.New("refused by the precondition on the destination")

// copyPreconditions checks the arguments and the order of the preconditions' calls in copies and
// moves, and that a refusal changes nothing.
func copyPreconditions(p *probe) {
	b, e := p.Put("a", "source")
	twin := p.copied(b, metastore.Blob{Account: "b", Name: "twin", Owner: "x"})
	other, otherExtent := p.Put("a", "other")
	old := p.put(metastore.Blob{Account: "a", Name: "old", Expires: p.Clock.Now().Add(time.Minute)}, p.Extent(0, 0, 3))
	p.Clock.Advance(time.Minute)
	for to, want := range map[metastore.BlobName]*metastore.Blob{
		named("none"): nil, blobName(old): nil, blobName(other): &other, blobName(twin): &twin, blobName(b): &b,
	} {
		var calls []string
		source := func(err error) metastore.Precondition {
			return func(current *metastore.Blob) error {
				calls = append(calls, "source")
				p.Must(current != nil, "the source's precondition is called with nil")
				p.Equal(*current, b, "passed to the source's precondition")
				return err
			}
		}
		destination := func(current *metastore.Blob) error {
			calls = append(calls, "destination")
			p.Must((current != nil) == (want != nil), "the precondition on %v is called with %+v", to, current)
			if want != nil {
				p.Equal(*current, *want, "passed to the precondition on the destination")
			}
			return errDestination
		}
		for _, c := range []struct {
			source error
			want   error
			calls  string
		}{{errRefused, errRefused, "[source]"}, {nil, errDestination, "[source destination]"}} {
			calls = nil
			_, err := p.Store.CopyBlob(p.Ctx, metastore.Copy{From: blobName(b), To: metastore.Blob{Account: to.Account, Name: to.Name}, Source: source(c.source), Precondition: destination})
			p.identical(err, c.want, "copy")
			p.Must(fmt.Sprint(calls) == c.calls, "a copy calls the preconditions of %v, want %s", calls, c.calls)
			calls = nil
			_, err = p.Store.MoveBlob(p.Ctx, metastore.Move{From: blobName(b), To: to, Source: source(c.source), Precondition: destination})
			p.identical(err, c.want, "move")
			p.Must(fmt.Sprint(calls) == c.calls, "a move calls the preconditions of %v, want %s", calls, c.calls)
		}
		_, err := p.Store.CopyBlob(p.Ctx, metastore.Copy{From: blobName(b), To: metastore.Blob{Account: to.Account, Name: to.Name}, Precondition: destination})
		p.identical(err, errDestination, "copy without a precondition on the source")
		_, err = p.Store.MoveBlob(p.Ctx, metastore.Move{From: blobName(b), To: to, Precondition: destination})
		p.identical(err, errDestination, "move without a precondition on the source")
	}
	p.reads(b, stored(e), "refusals")
	p.reads(twin, stored(e), "refusals")
	p.reads(other, stored(otherExtent), "refusals")
	p.missing(named("none"), "a refused destination")
	p.Must(len(p.Garbage()) == 0, "refusals made garbage")
	p.Audited()
}

// copyExpiry checks that a copy expires when it is stated, and not with its source.
func copyExpiry(p *probe) {
	now := p.Clock.Now()
	e := p.Extent(0, 0, 5)
	source := p.put(metastore.Blob{Account: "a", Name: "source", Expires: now.Add(time.Hour)}, e)
	lasting := p.copied(source, metastore.Blob{Account: "a", Name: "lasting"})
	short := p.copied(lasting, metastore.Blob{Account: "a", Name: "short", Expires: now.Add(time.Minute)})
	p.Clock.Advance(time.Minute - time.Microsecond)
	p.reads(short, stored(e), "a minute")
	p.Clock.Advance(time.Microsecond)
	p.Is(dbtest.Error(p.Store.Blob(p.Ctx, "a", "short")), database.ErrExpired, "a copy at its expiry")
	p.reads(source, stored(e), "the expiry of a copy")
	p.Clock.Advance(time.Hour)
	p.Is(dbtest.Error(p.Store.CopyBlob(p.Ctx, metastore.Copy{From: blobName(source), To: short})), database.ErrExpired, "copy that has expired")
	p.reads(lasting, stored(e), "the expiry of the source")
	p.Clock.Advance(metastore.ExpiredBlobGrace)
	p.Must(p.Purge() == 2, "not the source and a copy were purged")
	p.reads(lasting, stored(e), "the purge of the source")
	p.Must(len(p.Garbage()) == 0, "a purge made a content garbage that a blob has")
	p.Audited()
}

// copyDates checks that a copy and a moved blob have dates like a blob that is committed.
func copyDates(p *probe) {
	p.Clock.Advance(time.Second - time.Duration(p.Clock.Now().Nanosecond())) // a second begins
	source, _ := p.Put("a", "source")
	p.Clock.Advance(time.Minute)
	first := p.copied(source, metastore.Blob{Account: "a", Name: "to"})
	p.Must(first.Modified.Equal(p.Clock.Now()) && !first.SharedSecond, "a copy has the dates %v, %v", first.Modified, first.SharedSecond)
	second := p.copied(source, metastore.Blob{Account: "a", Name: "to"})
	p.Must(second.SharedSecond, "a second copy of the second does not share it")
	p.Clock.Advance(-time.Second)
	third := p.copied(source, metastore.Blob{Account: "a", Name: "to"})
	p.Must(third.Modified.Equal(second.Modified) && third.SharedSecond, "a copy with the clock set back has the dates %v, %v", third.Modified, third.SharedSecond)
	p.remove("a", "to")
	moved := p.moved(source, "to")
	p.Must(moved.Modified.Equal(second.Modified) && moved.SharedSecond, "a blob moved to a deleted one has the dates %v, %v", moved.Modified, moved.SharedSecond)
	p.Clock.Advance(time.Minute)
	back := p.moved(moved, "source")
	p.Must(back.Modified.Equal(p.Clock.Now()) && !back.SharedSecond, "a blob moved back has the dates %v, %v", back.Modified, back.SharedSecond)
	b, _ := p.Put("a", "to") // the move left it as a deletion does
	p.Must(b.Modified.Equal(p.Clock.Now()) && !b.SharedSecond, "a blob after a move has the dates %v, %v", b.Modified, b.SharedSecond)
	p.moved(b, "away")
	p.Clock.Advance(-time.Second)
	b, _ = p.Put("a", "to")
	p.Must(b.Modified.Equal(p.Clock.Now().Add(time.Second)) && b.SharedSecond, "a blob after a move, with the clock set back, has the dates %v, %v", b.Modified, b.SharedSecond)
}

// endings are the ways by which a blob loses its content.
var endings = []struct {
	name string
	end  func(p *probe, b metastore.Blob)
}{
	{"a delete", func(p *probe, b metastore.Blob) { p.remove(b.Account, b.Name) }},
	{"a commit", func(p *probe, b metastore.Blob) { p.Put(b.Account, b.Name) }},
	{"a complete", func(p *probe, b metastore.Blob) {
		id := fmt.Sprint("upload", p.Next())
		p.Begin(id, b.Account, b.Name)
		p.part(id, 0, 5)
		p.Complete(id)
	}},
	{"a copy", func(p *probe, b metastore.Blob) {
		other, _ := p.Put("others", "copied")
		p.copied(other, b)
	}},
	{"a copy of an inline content", func(p *probe, b metastore.Blob) {
		p.copied(p.put(metastore.Blob{Account: "others", Name: "inline"}, p.Inline(0, 0, []byte("x"))), b)
	}},
	{"a move", func(p *probe, b metastore.Blob) {
		other, _ := p.Put("others", "moved")
		dbtest.Value(p.Store.MoveBlob(p.Ctx, metastore.Move{From: blobName(other), To: blobName(b)}))
	}},
	{"a move of a copy", func(p *probe, b metastore.Blob) {
		other, _ := p.Put("others", "copied")
		copied := p.copied(other, metastore.Blob{Account: "others", Name: "copy"})
		dbtest.Value(p.Store.MoveBlob(p.Ctx, metastore.Move{From: blobName(copied), To: blobName(b)}))
	}},
	{"a purge", func(p *probe, b metastore.Blob) {
		b.Expires = p.Clock.Now().Add(time.Minute)
		p.copied(b, b)
		p.Clock.Advance(metastore.ExpiredBlobGrace + time.Minute)
		p.Purge()
	}},
}

// copyLastBlob shares contents by four blobs, which lose it in every way. It becomes garbage with
// the last one.
func copyLastBlob(p *probe) {
	for i := range endings {
		e := p.Extent(0, 0, 5)
		source := p.put(metastore.Blob{Account: "a", Name: fmt.Sprint("name", i)}, e)
		blobs := []metastore.Blob{source}
		for k := range 3 { // copies of copies, too
			blobs = append(blobs, p.copied(blobs[k/2], metastore.Blob{Account: []string{"a", "b"}[k%2], Name: fmt.Sprint("copy", i, k)}))
		}
		for k := range blobs {
			b := blobs[(k+i)%len(blobs)] // the source is not always the first
			ending := endings[(i+k)%len(endings)]
			ending.end(p, b)
			for _, left := range blobs {
				if blobName(left) != blobName(b) && p.has(left) {
					p.reads(left, stored(e), "%s of another blob that had the content", ending.name)
				}
			}
			p.Must(p.isGarbage(source.Content) == (k == len(blobs)-1), "after %s the content is garbage: %v, and %d of %d blobs are left",
				ending.name, p.isGarbage(source.Content), len(blobs)-1-k, len(blobs))
			p.Equal(p.allExtents(source.Content), stored(e), "extents after %s", ending.name)
			p.Audited()
		}
		p.drop()
		p.Equal(dbtest.Value(p.Store.Unreferenced(p.Ctx, []string{e.Object})), []string{e.Object}, "objects of the content that was dropped")
		p.Audited()
	}
}

// has reports whether a blob is stored with b's content.
func (p *probe) has(b metastore.Blob) bool {
	got, err := p.Store.Blob(p.Ctx, b.Account, b.Name)
	return err == nil && got.Content == b.Content
}

// copyDelete checks that a delete returns a content's id only if it has become garbage.
func copyDelete(p *probe) {
	b, _ := p.Put("a", "name")
	p.copied(b, metastore.Blob{Account: "a", Name: "copy"})
	p.copied(b, metastore.Blob{Account: "b", Name: "copy"})
	for i, n := range []metastore.BlobName{named("copy"), blobName(b), {Account: "b", Name: "copy"}, blobName(b)} {
		id, had, err := dbtest.Remove(p.Ctx, p.Store, n.Account, n.Name, nil)
		p.OK(err, "delete")
		want := metastore.ContentID{}
		if i == 2 {
			want = b.Content
		}
		p.Must(id == want && had == (i < 3), "delete %d returned %v, %v", i, id, had)
	}
}
