package metatest

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/metastore"
)

var garbageChecks = []dbtest.Check{
	check("garbage/life", garbageLife),
	check("garbage/paging", garbagePaging),
	check("garbage/live-extents", garbageLiveExtents),
	check("garbage/contents", garbageContents),
	check("garbage/unreferenced", garbageUnreferenced),
	check("garbage/holds", garbageHolds),
}

func positions(extents []metastore.Extent) []metastore.Position {
	var list []metastore.Position
	for _, e := range extents {
		list = append(list, metastore.Position{Part: e.Part, Offset: e.Offset})
	}
	return list
}

// garbageLife follows a content of three parts from its overwrite until it is dropped.
func garbageLife(p *probe) {
	p.Begin("upload", "a", "name")
	for i := range 3 {
		extents := []metastore.Extent{p.Extent(i, 0, 3), p.Inline(i, 3, []byte("xy")), p.Extent(i, 5, 5)}
		p.OK(p.Store.PutPart(p.Ctx, "upload", metastore.Part{Index: i, Size: 10}, extents), "part")
	}
	content := p.Complete("upload").Content
	all := p.allExtents(content)
	p.Must(len(all) == 9, "%d extents", len(all))
	p.Put("a", "name")
	p.Equal(p.Garbage(), []metastore.ContentID{content}, "garbage")
	p.Is(p.Store.DropContent(p.Ctx, content), database.ErrExists, "drop of a content with extents")

	drop := positions([]metastore.Extent{all[0], all[1], all[4], all[8]})
	for range 2 { // repeated, so nil
		p.OK(p.Store.DropExtents(p.Ctx, content, drop), "drop extents")
		left := []metastore.Extent{all[2], all[3], all[5], all[6], all[7]}
		p.Equal(p.allExtents(content), left, "extents left")
	}
	p.OK(p.Store.DropExtents(p.Ctx, content, []metastore.Position{{Part: 77}, {Part: 0, Offset: 4}}), "drop of unknown extents")
	p.Must(len(p.allExtents(content)) == 5, "other extents were dropped")
	p.Is(p.Store.DropContent(p.Ctx, content), database.ErrExists, "drop of a content with extents")
	free := dbtest.Value(p.Store.Unreferenced(p.Ctx, []string{all[0].Object, all[2].Object, all[8].Object}))
	p.Equal(free, []string{all[0].Object, all[8].Object}, "keys without an extent")

	p.OK(p.Store.DropExtents(p.Ctx, content, positions(all)), "drop of all extents")
	p.Equal(p.Garbage(), []metastore.ContentID{content}, "garbage without extents")
	for range 2 {
		p.OK(p.Store.DropContent(p.Ctx, content), "drop content")
		p.Must(len(p.Garbage()) == 0, "garbage that was dropped")
	}
	p.Reopen()
	p.Must(len(p.Garbage()) == 0, "garbage that was dropped, after a reopen")
}

// garbagePaging pages through contents that became garbage at various times, some of them
// simultaneously, and not in the order of their ids.
func garbagePaging(p *probe) {
	var all []metastore.GarbageContent
	for i := range 12 {
		b, _ := p.Put("a", fmt.Sprint("name", i))
		all = append(all, metastore.GarbageContent{Content: b.Content})
	}
	for i := range 12 {
		k := i * 7 % 12
		p.remove("a", fmt.Sprint("name", k))
		all[k].Since = p.Clock.Now()
		if i%3 == 2 {
			p.Clock.Advance(time.Second)
		}
	}
	slices.SortFunc(all, func(a, b metastore.GarbageContent) int {
		return cmp.Or(a.Since.Compare(b.Since), bytes.Compare(a.Content[:], b.Content[:]))
	})
	p.Reopen()
	for k := range 6 {
		for _, d := range []time.Duration{-time.Microsecond, 0, time.Microsecond} {
			p.duePages(all, time.Duration(k)*time.Second+d)
		}
	}
	first := all[0]
	p.Clock.Advance(time.Minute)
	p.OK(p.Store.DropContents(p.Ctx, []metastore.ContentID{first.Content, all[5].Content}), "drop")
	p.duePages(slices.Delete(slices.Delete(slices.Clone(all), 5, 6), 0, 1), 0)
}

// duePages compares the contents that have been garbage for the grace, in pages of several lengths,
// with the entries of list that became garbage that long ago.
func (p *probe) duePages(list []metastore.GarbageContent, grace time.Duration) {
	due := p.Clock.Now().Add(-grace)
	want := slices.DeleteFunc(slices.Clone(list), func(g metastore.GarbageContent) bool { return g.Since.After(due) })
	for limit := 1; limit < 14; limit += 4 {
		var got []metastore.GarbageContent
		var after metastore.GarbageContent
		for {
			page := dbtest.Value(p.Store.GarbageContents(p.Ctx, grace, after, limit))
			p.Must(len(page) <= limit, "a page of %d by %d", len(page), limit)
			if len(page) == 0 {
				break
			}
			got = append(got, page...)
			after = page[len(page)-1]
		}
		p.Equal(got, want, "garbage for %s, in pages of %d", grace, limit)
	}
	backlog := dbtest.Value(p.Store.GarbageBacklog(p.Ctx, grace))
	wantBacklog := metastore.Backlog{Contents: len(want)}
	if len(want) > 0 {
		wantBacklog.Oldest = due.Sub(want[0].Since)
	}
	for _, g := range want {
		for _, e := range p.allExtents(g.Content) {
			wantBacklog.Bytes += e.Size
		}
	}
	p.Equal(backlog, wantBacklog, "backlog of garbage for %s", grace)
}

// garbageLiveExtents tries to drop contents that are not garbage.
func garbageLiveExtents(p *probe) {
	b, e := p.Put("a", "name")
	u := p.Begin("upload", "a", "by-parts")
	part := p.part("upload", 0, 9)
	for id, extents := range map[metastore.ContentID][]metastore.Extent{b.Content: stored(e), u.Content: stored(part)} {
		p.Is(p.Store.DropExtents(p.Ctx, id, positions(extents)), database.ErrNotFound, "drop of live extents")
		p.Equal(p.allExtents(id), extents, "live extents")
		if err := p.Store.DropContent(p.Ctx, id); err == nil {
			p.Equal(p.allExtents(id), extents, "live extents after a drop of the content")
		}
	}
	p.Equal(dbtest.Value(p.Store.Blob(p.Ctx, "a", "name")), b, "blob")
}

// garbageContents drops a page of contents of every kind in one call.
func garbageContents(p *probe) {
	live, liveExtent := p.Put("a", "live")
	open := p.Begin("open", "a", "open")
	openPart := p.part("open", 0, 9)
	gone := func(name string, extents ...metastore.Extent) metastore.ContentID {
		b := metastore.Blob{Account: "a", Name: name, Content: p.Content()}
		for _, e := range extents {
			b.Size += e.Size
		}
		b = dbtest.Value(p.Store.CommitBlob(p.Ctx, b, extents, nil))
		p.remove("a", name)
		return b.Content
	}
	run := func(n int) (list []metastore.Extent) {
		for i := range n {
			list = append(list, p.Extent(0, int64(i), 1))
		}
		return list
	}
	mixed := []metastore.Extent{p.Extent(0, 0, 3), p.Inline(0, 3, []byte("xy")), p.Extent(0, 5, 5)}
	small, large := run(metastore.MaxSmallExtents), run(metastore.MaxSmallExtents+1)
	contents := []metastore.ContentID{
		gone("empty"), gone("inline", p.Inline(0, 0, []byte("x"))), gone("mixed", mixed...), gone("small", small...),
		gone("large", large...), live.Content, open.Content, p.Content(),
	}
	want := map[metastore.ContentID][]string{contents[0]: nil, contents[1]: nil, contents[2]: {mixed[0].Object, mixed[2].Object}, contents[3]: nil}
	for _, e := range small {
		want[contents[3]] = append(want[contents[3]], e.Object)
	}
	objects := dbtest.Value(p.Store.GarbageObjects(p.Ctx, contents))
	p.Must(len(objects) == len(want), "objects of %d contents, want %d", len(objects), len(want))
	for id, keys := range want {
		got, ok := objects[id]
		slices.Sort(got)
		slices.Sort(keys)
		p.Must(ok && slices.Equal(got, keys), "objects of %v: %q, want %q", id, got, keys)
	}

	for range 2 { // repeated, so nil
		p.OK(p.Store.DropContents(p.Ctx, append(contents, contents...)), "drop")
		p.Equal(p.Garbage(), contents[4:5], "garbage after the drop")
		p.Equal(p.allExtents(contents[4]), stored(large...), "extents of a content that is not small")
		p.Equal(p.allExtents(live.Content), stored(liveExtent), "extents of a live blob")
		p.Equal(p.allExtents(open.Content), stored(openPart), "extents of an open upload")
		for id := range want {
			p.Must(len(p.allExtents(id)) == 0, "a dropped content has extents")
		}
		p.Reopen()
	}
	free := dbtest.Value(p.Store.Unreferenced(p.Ctx, []string{mixed[0].Object, small[15].Object, large[0].Object, liveExtent.Object}))
	p.Equal(free, []string{mixed[0].Object, small[15].Object}, "keys without an extent")
	objects = dbtest.Value(p.Store.GarbageObjects(p.Ctx, contents))
	p.Must(len(objects) == 0, "objects after the drop: %v", objects)

	p.OK(p.Store.DropExtents(p.Ctx, contents[4], positions(large[:1])), "drop of an extent")
	p.OK(p.Store.DropContents(p.Ctx, contents), "drop of a content that is small now")
	p.Must(len(p.Garbage()) == 0, "garbage that was dropped")

	many := make([]metastore.ContentID, metastore.MaxContents+1)
	p.OK(p.Store.DropContents(p.Ctx, many[1:]), "drop of as many as a call may pass")
	p.Must(p.Store.DropContents(p.Ctx, many) != nil, "drop of too many")
	_, err := p.Store.GarbageObjects(p.Ctx, many)
	p.Must(err != nil, "objects of too many")
}

func garbageUnreferenced(p *probe) {
	var keys, want []string
	for i := range 1000 {
		if i%100 != 0 {
			keys = append(keys, fmt.Sprint("nobody-", i))
			want = append(want, keys[i])
			continue
		}
		_, e := p.Put("a", fmt.Sprint("name", i))
		keys = append(keys, e.Object)
		if i%200 == 0 { // garbage is a reference too
			p.remove("a", fmt.Sprint("name", i))
		}
	}
	got := dbtest.Value(p.Store.Unreferenced(p.Ctx, keys))
	slices.Sort(got)
	slices.Sort(want)
	p.Equal(got, want, "keys without an extent")
	none := dbtest.Value(p.Store.Unreferenced(p.Ctx, nil))
	p.Must(len(none) == 0, "keys for no keys")
}

// garbageHolds begins, extends and ends holds of two backups.
func garbageHolds(p *probe) {
	began := p.Clock.Now()
	held := func(want time.Time, when string) {
		since, ok, err := p.Store.GarbageHeld(p.Ctx)
		p.OK(err, "garbage held")
		p.Must(ok == !want.IsZero() && since.Equal(want), "%s garbage is held since %s, %v, want %s", when, since, ok, want)
	}
	hold := func(id string, d time.Duration, want time.Time) {
		since := dbtest.Value(p.Store.HoldGarbage(p.Ctx, id, d))
		p.Must(since.Equal(want), "a hold of %q begins at %s, want %s", id, since, want)
	}
	earlier := func(t time.Time) time.Time { return t.Add(-time.Minute) }
	held(time.Time{}, "without a backup")
	hold("a", time.Minute, earlier(began))
	p.Clock.Advance(50 * time.Second)
	hold("a", time.Minute, earlier(began))
	second := p.Clock.Now()
	hold("b", time.Hour, earlier(second))
	p.Clock.Advance(time.Minute - time.Microsecond)
	p.Reopen()
	held(earlier(began), "just before the end")
	p.Clock.Advance(time.Microsecond)
	held(earlier(second), "at the end of the first")
	hold("a", time.Minute, earlier(p.Clock.Now()))
	held(earlier(second), "after a new one")
	for range 2 { // repeated, so nil
		p.OK(p.Store.ReleaseGarbage(p.Ctx, "b"), "release")
		held(earlier(p.Clock.Now()), "after a release")
	}
	p.OK(p.Store.ReleaseGarbage(p.Ctx, "unknown"), "release of nothing")
	held(earlier(p.Clock.Now()), "after a release of nothing")
	p.Clock.Advance(time.Hour)
	held(time.Time{}, "after both")
}
