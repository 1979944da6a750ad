package metatest

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"sluice/database"
	"sluice/metastore"
)

func garbageChecks() []Check {
	return []Check{
		check("garbage/life", garbageLife),
		check("garbage/paging", garbagePaging),
		check("garbage/live-extents", garbageLiveExtents),
		check("garbage/contents", garbageContents),
		check("garbage/unreferenced", garbageUnreferenced),
	}
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
	p.begin("upload", "a", "name")
	for i := range 3 {
		extents := []metastore.Extent{p.extent(i, 0, 3), p.inline(i, 3, []byte("xy")), p.extent(i, 5, 5)}
		p.ok(p.store.PutPart(p.ctx, "upload", metastore.Part{Index: i, Size: 10}, extents), "part")
	}
	content := p.complete("upload").Content
	all := p.allExtents(content)
	p.must(len(all) == 9, "%d extents", len(all))
	p.put("a", "name")
	p.equal(p.garbage(), []metastore.ContentID{content}, "garbage")
	p.is(p.store.DropContent(p.ctx, content), database.ErrExists, "drop of a content with extents")

	drop := positions([]metastore.Extent{all[0], all[1], all[4], all[8]})
	for range 2 { // repeated, so nil
		p.ok(p.store.DropExtents(p.ctx, content, drop), "drop extents")
		left := []metastore.Extent{all[2], all[3], all[5], all[6], all[7]}
		p.equal(p.allExtents(content), left, "extents left")
	}
	p.ok(p.store.DropExtents(p.ctx, content, []metastore.Position{{Part: 77}, {Part: 0, Offset: 4}}), "drop of unknown extents")
	p.must(len(p.allExtents(content)) == 5, "other extents were dropped")
	p.is(p.store.DropContent(p.ctx, content), database.ErrExists, "drop of a content with extents")
	free, err := p.store.Unreferenced(p.ctx, []string{all[0].Key, all[2].Key, all[8].Key})
	p.ok(err, "unreferenced")
	p.equal(free, []string{all[0].Key, all[8].Key}, "keys without an extent")

	p.ok(p.store.DropExtents(p.ctx, content, positions(all)), "drop of all extents")
	p.equal(p.garbage(), []metastore.ContentID{content}, "garbage without extents")
	for range 2 {
		p.ok(p.store.DropContent(p.ctx, content), "drop content")
		p.must(len(p.garbage()) == 0, "garbage that was dropped")
	}
	p.reopen()
	p.must(len(p.garbage()) == 0, "garbage that was dropped, after a reopen")
}

// garbagePaging pages through contents that became garbage at various times, some of them
// simultaneously, and not in the order of their ids.
func garbagePaging(p *probe) {
	var all []metastore.GarbageContent
	for i := range 12 {
		b, _ := p.put("a", fmt.Sprint("name", i))
		all = append(all, metastore.GarbageContent{Content: b.Content})
	}
	for i := range 12 {
		k := i * 7 % 12
		_, _, err := p.store.DeleteBlob(p.ctx, "a", fmt.Sprint("name", k), nil)
		p.ok(err, "delete")
		all[k].Since = p.clock.Now()
		if i%3 == 2 {
			p.clock.Advance(time.Second)
		}
	}
	slices.SortFunc(all, func(a, b metastore.GarbageContent) int {
		return cmp.Or(a.Since.Compare(b.Since), bytes.Compare(a.Content[:], b.Content[:]))
	})
	p.reopen()
	for k := range 6 {
		for _, d := range []time.Duration{-time.Microsecond, 0, time.Microsecond} {
			p.duePages(all, time.Duration(k)*time.Second+d)
		}
	}
	first := all[0]
	p.clock.Advance(time.Minute)
	p.ok(p.store.DropContents(p.ctx, []metastore.ContentID{first.Content, all[5].Content}), "drop")
	p.duePages(slices.Delete(slices.Delete(slices.Clone(all), 5, 6), 0, 1), 0)
}

// duePages compares what has been garbage for the grace, in pages of several lengths, with the part
// of the list that became garbage that long ago.
func (p *probe) duePages(list []metastore.GarbageContent, grace time.Duration) {
	due := p.clock.Now().Add(-grace)
	want := slices.DeleteFunc(slices.Clone(list), func(g metastore.GarbageContent) bool { return g.Since.After(due) })
	for limit := 1; limit < 14; limit += 4 {
		var got []metastore.GarbageContent
		var after metastore.GarbageContent
		for {
			page, err := p.store.GarbageContents(p.ctx, grace, after, limit)
			p.ok(err, "garbage")
			p.must(len(page) <= limit, "a page of %d by %d", len(page), limit)
			if len(page) == 0 {
				break
			}
			got = append(got, page...)
			after = page[len(page)-1]
		}
		p.equal(got, want, "garbage for %s, in pages of %d", grace, limit)
	}
	backlog, err := p.store.GarbageBacklog(p.ctx, grace)
	p.ok(err, "backlog")
	wantBacklog := metastore.Backlog{Contents: len(want)}
	if len(want) > 0 {
		wantBacklog.Oldest = due.Sub(want[0].Since)
	}
	for _, g := range want {
		for _, e := range p.allExtents(g.Content) {
			wantBacklog.Bytes += e.Size
		}
	}
	p.equal(backlog, wantBacklog, "backlog of garbage for %s", grace)
}

// garbageLiveExtents tries to drop contents that are not garbage.
func garbageLiveExtents(p *probe) {
	b, e := p.put("a", "name")
	u := p.begin("upload", "a", "by-parts")
	part := p.part("upload", 0, 9)
	for id, extents := range map[metastore.ContentID][]metastore.Extent{b.Content: stored(e), u.Content: stored(part)} {
		p.is(p.store.DropExtents(p.ctx, id, positions(extents)), database.ErrNotFound, "drop of live extents")
		p.equal(p.allExtents(id), extents, "live extents")
		if err := p.store.DropContent(p.ctx, id); err == nil {
			p.equal(p.allExtents(id), extents, "live extents after a drop of the content")
		}
	}
	got, err := p.store.Blob(p.ctx, "a", "name")
	p.ok(err, "blob")
	p.equal(got, b, "blob")
}

// garbageContents drops a page of contents of every kind in one call.
func garbageContents(p *probe) {
	live, liveExtent := p.put("a", "live")
	open := p.begin("open", "a", "open")
	openPart := p.part("open", 0, 9)
	gone := func(name string, extents ...metastore.Extent) metastore.ContentID {
		b := metastore.Blob{Account: "a", Name: name, Content: p.content()}
		for _, e := range extents {
			b.Size += e.Size
		}
		b, err := p.store.CommitBlob(p.ctx, b, extents, nil)
		p.ok(err, "commit")
		_, _, err = p.store.DeleteBlob(p.ctx, "a", name, nil)
		p.ok(err, "delete")
		return b.Content
	}
	run := func(n int) (list []metastore.Extent) {
		for i := range n {
			list = append(list, p.extent(0, int64(i), 1))
		}
		return list
	}
	mixed := []metastore.Extent{p.extent(0, 0, 3), p.inline(0, 3, []byte("xy")), p.extent(0, 5, 5)}
	small, large := run(metastore.MaxSmallExtents), run(metastore.MaxSmallExtents+1)
	contents := []metastore.ContentID{
		gone("empty"), gone("inline", p.inline(0, 0, []byte("x"))), gone("mixed", mixed...), gone("small", small...),
		gone("large", large...), live.Content, open.Content, p.content(),
	}
	want := map[metastore.ContentID][]string{contents[0]: nil, contents[1]: nil, contents[2]: {mixed[0].Key, mixed[2].Key}, contents[3]: nil}
	for _, e := range small {
		want[contents[3]] = append(want[contents[3]], e.Key)
	}
	objects, err := p.store.GarbageObjects(p.ctx, contents)
	p.ok(err, "objects")
	p.must(len(objects) == len(want), "objects of %d contents, want %d", len(objects), len(want))
	for id, keys := range want {
		got, ok := objects[id]
		slices.Sort(got)
		slices.Sort(keys)
		p.must(ok && slices.Equal(got, keys), "objects of %v: %q, want %q", id, got, keys)
	}

	for range 2 { // repeated, so nil
		p.ok(p.store.DropContents(p.ctx, append(contents, contents...)), "drop")
		p.equal(p.garbage(), contents[4:5], "garbage after the drop")
		p.equal(p.allExtents(contents[4]), stored(large...), "extents of a content that is not small")
		p.equal(p.allExtents(live.Content), stored(liveExtent), "extents of a live blob")
		p.equal(p.allExtents(open.Content), stored(openPart), "extents of an open upload")
		for id := range want {
			p.must(len(p.allExtents(id)) == 0, "a dropped content has extents")
		}
		p.reopen()
	}
	free, err := p.store.Unreferenced(p.ctx, []string{mixed[0].Key, small[15].Key, large[0].Key, liveExtent.Key})
	p.ok(err, "unreferenced")
	p.equal(free, []string{mixed[0].Key, small[15].Key}, "keys without an extent")
	objects, err = p.store.GarbageObjects(p.ctx, contents)
	p.ok(err, "objects")
	p.must(len(objects) == 0, "objects after the drop: %v", objects)

	p.ok(p.store.DropExtents(p.ctx, contents[4], positions(large[:1])), "drop of an extent")
	p.ok(p.store.DropContents(p.ctx, contents), "drop of a content that is small now")
	p.must(len(p.garbage()) == 0, "garbage that was dropped")

	many := make([]metastore.ContentID, metastore.MaxContents+1)
	p.ok(p.store.DropContents(p.ctx, many[1:]), "drop of as many as a call may pass")
	p.must(p.store.DropContents(p.ctx, many) != nil, "drop of too many")
	_, err = p.store.GarbageObjects(p.ctx, many)
	p.must(err != nil, "objects of too many")
}

func garbageUnreferenced(p *probe) {
	var keys, want []string
	for i := range 1000 {
		if i%100 != 0 {
			keys = append(keys, fmt.Sprint("nobody-", i))
			want = append(want, keys[i])
			continue
		}
		_, e := p.put("a", fmt.Sprint("name", i))
		keys = append(keys, e.Key)
		if i%200 == 0 { // garbage is a reference too
			_, _, err := p.store.DeleteBlob(p.ctx, "a", fmt.Sprint("name", i), nil)
			p.ok(err, "delete")
		}
	}
	got, err := p.store.Unreferenced(p.ctx, keys)
	p.ok(err, "unreferenced")
	slices.Sort(got)
	slices.Sort(want)
	p.equal(got, want, "keys without an extent")
	none, err := p.store.Unreferenced(p.ctx, nil)
	p.ok(err, "unreferenced of no keys")
	p.must(len(none) == 0, "keys for no keys")
}
