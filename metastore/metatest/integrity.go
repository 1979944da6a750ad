package metatest

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/metastore"
)

var integrityChecks = []dbtest.Check{
	check("integrity/lists", integrityLists),
	check("integrity/damage", integrityDamage),
	check("integrity/damage-ends", integrityDamageEnds),
	check("integrity/heal", integrityHeal),
	check("integrity/heal-races", integrityHealRaces),
	check("integrity/heal-body", integrityHealBody),
	check("integrity/heal-body-races", integrityHealBodyRaces),
	check("integrity/scrub", integrityScrub),
}

// commit stores a blob with these extents, and returns its content.
func (p *probe) commit(name string, extents ...metastore.Extent) metastore.ContentID {
	b := metastore.Blob{Account: "a", Name: name, Content: p.Content()}
	for _, e := range extents {
		b.Size += e.Size
	}
	return dbtest.Value(p.Store.CommitBlob(p.Ctx, b, extents, nil)).Content
}

func damageOf(content metastore.ContentID, e metastore.Extent, bad uint64) metastore.Damage {
	return metastore.Damage{
		ExtentID: metastore.ExtentID{Content: content, Position: metastore.Position{Part: e.Part, Offset: e.Offset}},
		Size:     e.Size, Object: e.Object, Bad: bad, Reason: "a test",
	}
}

// record records damage and requires that the store reports whether it did.
func (p *probe) record(d metastore.Damage, want bool) {
	got, err := p.Store.RecordDamage(p.Ctx, d)
	p.OK(err, "record damage")
	p.Must(got == want, "recorded: %t, want %t", got, want)
}

// damages returns all damage, in pages of this length.
func (p *probe) damages(limit int) (all []metastore.Damage) {
	for after := (metastore.ExtentID{}); ; {
		page := dbtest.Value(p.Store.Damages(p.Ctx, after, limit))
		p.Must(len(page) <= limit, "a page of %d by %d", len(page), limit)
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
		after = page[len(page)-1].ExtentID
	}
}

// integrityLists pages through all objects and through all extents.
func integrityLists(p *probe) {
	var objects, all []metastore.StoredExtent
	for _, name := range []string{"one", "two", "three"} {
		extents := []metastore.Extent{p.Extent(0, 0, 3), p.Inline(0, 3, []byte("xy")), p.Extent(0, 5, 5), p.Inline(0, 10, []byte("z"))}
		content := p.commit(name, extents...)
		for _, e := range stored(extents...) {
			one := metastore.StoredExtent{Extent: e, Content: content, Garbage: name == "two"}
			all = append(all, one)
			if e.Object != "" {
				objects = append(objects, one)
			}
		}
	}
	extents, size, err := p.Store.StoredSize(p.Ctx)
	p.OK(err, "size")
	p.Must(extents == 12 && size == 33, "%d extents of %d bytes, want 12 of 33", extents, size)
	p.remove("a", "two")
	slices.SortFunc(objects, func(a, b metastore.StoredExtent) int { return strings.Compare(a.Object, b.Object) })
	slices.SortStableFunc(all, func(a, b metastore.StoredExtent) int { return bytes.Compare(a.Content[:], b.Content[:]) })
	for limit := 1; limit < 8; limit += 3 {
		var got []metastore.StoredExtent
		for after := ""; ; after = got[len(got)-1].Object {
			page := dbtest.Value(p.Store.Objects(p.Ctx, after, limit))
			p.Must(len(page) <= limit, "a page of %d objects by %d", len(page), limit)
			if got = append(got, page...); len(page) == 0 {
				break
			}
		}
		p.Equal(got, objects, "objects in pages of %d", limit)
		got = nil
		for after := (metastore.ExtentID{}); ; after = got[len(got)-1].ID() {
			page := dbtest.Value(p.Store.StoredExtents(p.Ctx, after, limit))
			p.Must(len(page) <= limit, "a page of %d extents by %d", len(page), limit)
			if got = append(got, page...); len(page) == 0 {
				break
			}
		}
		p.Equal(got, all, "extents in pages of %d", limit)
	}
}

// integrityDamage records damage of several extents, in several steps.
func integrityDamage(p *probe) {
	extents := []metastore.Extent{p.Extent(0, 0, 2*dbtest.MiB+5), p.Inline(0, 2*dbtest.MiB+5, []byte("xyz")), p.Extent(0, 2*dbtest.MiB+8, metastore.MaxExtentSize)}
	content := p.commit("name", extents...)
	_, err := p.Store.CopyBlob(p.Ctx, metastore.Copy{From: metastore.BlobName{Account: "a", Name: "name"}, To: metastore.Blob{Account: "b", Name: "copy"}})
	p.OK(err, "copy")
	other := p.commit("other", p.Extent(0, 0, 1))
	p.Equal(dbtest.Value(p.Store.DamageTotals(p.Ctx)), metastore.DamageTotals{}, "totals without damage")

	since := p.Clock.Now()
	p.record(damageOf(content, extents[0], 1<<2), true)
	p.record(damageOf(content, extents[1], 1), true)
	p.record(damageOf(content, extents[2], 1<<63), true)
	p.Clock.Advance(time.Hour)
	again := damageOf(content, extents[0], 1)
	again.Reason = "found again"
	p.record(again, true)
	p.Reopen()

	want := []metastore.Damage{damageOf(content, extents[0], 1<<2|1), damageOf(content, extents[1], 1), damageOf(content, extents[2], 1<<63)}
	for i, n := range []int64{dbtest.MiB + 5, 3, dbtest.MiB} {
		want[i].Bytes, want[i].Since = n, since
	}
	want[0].Reason = "found again"
	for limit := 1; limit < 5; limit++ {
		p.Equal(p.damages(limit), want, "damage in pages of %d", limit)
	}
	p.Equal(dbtest.Value(p.Store.DamagesOf(p.Ctx, content)), want, "damage of the content")
	p.Must(len(dbtest.Value(p.Store.DamagesOf(p.Ctx, other))) == 0, "damage of another content")
	p.Equal(dbtest.Value(p.Store.DamageTotals(p.Ctx)), metastore.DamageTotals{Contents: 1, Extents: 3, Bytes: 2*dbtest.MiB + 8, Since: since}, "totals")
	p.Equal(dbtest.Value(p.Store.BlobsWith(p.Ctx, []metastore.ContentID{content, p.Content()})), []metastore.BlobContent{
		{BlobName: metastore.BlobName{Account: "a", Name: "name"}, Content: content}, {BlobName: metastore.BlobName{Account: "b", Name: "copy"}, Content: content},
	}, "blobs with the content")

	wrong := want[0]
	wrong.Object = extents[2].Object
	p.OK(p.Store.ForgetDamage(p.Ctx, wrong), "forget damage of another object")
	p.Equal(p.damages(10), want, "damage after another object's was forgotten")
	for range 2 {
		p.OK(p.Store.ForgetDamage(p.Ctx, want[0]), "forget")
		p.OK(p.Store.ForgetDamage(p.Ctx, want[1]), "forget")
		p.Equal(p.damages(10), want[2:], "damage after two were forgotten")
	}
}

// integrityDamageEnds lets damaged extents become garbage, move and vanish.
func integrityDamageEnds(p *probe) {
	e := p.Extent(0, 0, 5)
	content := p.commit("name", e)
	d := damageOf(content, e, 1)
	other := d
	other.Object = p.Extent(0, 0, 5).Object
	p.record(other, false)
	inline := d
	inline.Object = ""
	p.record(inline, false)
	unknown := d
	unknown.Content = p.Content()
	p.record(unknown, false)
	p.record(d, true)
	p.Must(dbtest.Value(p.Store.PruneDamage(p.Ctx, 10)) == 0, "current damage was pruned")
	p.remove("a", "name")
	p.Must(len(p.damages(10)) == 0, "garbage is damaged")
	p.Must(len(dbtest.Value(p.Store.DamagesOf(p.Ctx, content))) == 0, "garbage is damaged")
	p.Equal(dbtest.Value(p.Store.DamageTotals(p.Ctx)), metastore.DamageTotals{}, "totals of garbage")
	p.record(d, false)
	p.Is(p.Store.HealExtent(p.Ctx, d, p.Extent(0, 0, 5), p.Content()), database.ErrNotFound, "healing garbage")
	p.OK(p.Store.DropContents(p.Ctx, []metastore.ContentID{content}), "drop")
	p.record(d, false)
	p.Must(dbtest.Value(p.Store.PruneDamage(p.Ctx, 10)) == 1, "damage of a dropped content was not pruned")
	p.Must(dbtest.Value(p.Store.PruneDamage(p.Ctx, 10)) == 0, "damage was pruned twice")
}

// integrityHeal heals an extent that two blobs share, and follows the old object.
func integrityHeal(p *probe) {
	extents := []metastore.Extent{p.Extent(0, 0, 2*dbtest.MiB), p.Inline(0, 2*dbtest.MiB, []byte("x"))}
	content := p.commit("name", extents...)
	for range 2 { // the second may be from a cache
		p.opens("a", "name")
	}
	_, err := p.Store.CopyBlob(p.Ctx, metastore.Copy{From: metastore.BlobName{Account: "a", Name: "name"}, To: metastore.Blob{Account: "b", Name: "copy"}})
	p.OK(err, "copy")
	p.opens("b", "copy")
	d := damageOf(content, extents[0], 3)
	p.record(d, true)
	p.record(damageOf(content, extents[1], 1), true)
	p.Is(p.Store.HealExtent(p.Ctx, damageOf(content, extents[1], 1), p.Extent(0, 0, 1), p.Content()), database.ErrNotFound, "healing an inline extent")
	stale := p.Extent(0, 0, 2*dbtest.MiB)
	stale.Created = p.Clock.Now().Add(-metastore.MaxExtentAge - time.Second)
	p.Is(p.Store.HealExtent(p.Ctx, d, stale, p.Content()), metastore.ErrStaleExtent, "healing with an old object")
	p.Equal(p.allExtents(content), stored(extents...), "extents after refused calls")

	fresh := p.Extent(0, 0, 2*dbtest.MiB)
	before := p.Clock.Now()
	p.OK(p.Store.HealExtent(p.Ctx, d, fresh, p.Content()), "heal")
	healed := extents[0]
	healed.Object = fresh.Object
	for range 2 {
		p.Equal(p.allExtents(content), stored(healed, extents[1]), "extents that were healed")
		p.opens("a", "name")
		p.opens("b", "copy")
		p.Must(len(p.damages(10)) == 1, "damage after one of two extents was healed")
		garbage := dbtest.Value(p.Store.GarbageContents(p.Ctx, 0, metastore.GarbageContent{}, 10))
		p.Must(len(garbage) == 1 && garbage[0].Since.Equal(before), "garbage after a heal: %v", garbage)
		objects := dbtest.Value(p.Store.GarbageObjects(p.Ctx, p.Garbage()))
		p.Equal(objects[garbage[0].Content], []string{d.Object}, "the old object")
		p.Reopen()
	}
	p.Must(dbtest.Value(p.Store.PruneDamage(p.Ctx, 10)) == 0, "the record of healed damage was left")
	p.Is(p.Store.HealExtent(p.Ctx, d, p.Extent(0, 0, 2*dbtest.MiB), p.Content()), database.ErrNotFound, "healing twice")
	p.record(d, false)
	p.OK(p.Store.DropContents(p.Ctx, p.Garbage()), "drop of the old object")
	free := dbtest.Value(p.Store.Unreferenced(p.Ctx, []string{d.Object, fresh.Object}))
	p.Equal(free, []string{d.Object}, "keys without an extent")
}

// integrityHealRaces heals one extent several times at once: one call succeeds.
func integrityHealRaces(p *probe) {
	e := p.Extent(0, 0, 5)
	content := p.commit("name", e)
	p.record(damageOf(content, e, 1), true)
	var won atomic.Int64
	var calls sync.WaitGroup
	for range 6 {
		fresh := p.Extent(0, 0, 5)
		calls.Go(func() {
			err := p.Store.HealExtent(p.Ctx, damageOf(content, e, 1), fresh, p.Content())
			if err == nil {
				won.Add(1)
			} else {
				p.Is(err, database.ErrNotFound, "a heal that lost")
			}
		})
	}
	calls.Wait()
	p.Must(won.Load() == 1, "%d heals of one object succeeded", won.Load())
	p.Must(len(p.Garbage()) == 1, "garbage: %v", p.Garbage())
}

// integrityHealBody replaces an inline extent's body, which two blobs share.
func integrityHealBody(p *probe) {
	object, inline, other := p.Extent(0, 0, 5), p.Inline(0, 5, []byte("damaged")), p.Inline(0, 12, []byte("other"))
	content := p.commit("name", object, inline, other)
	_, err := p.Store.CopyBlob(p.Ctx, metastore.Copy{From: metastore.BlobName{Account: "a", Name: "name"}, To: metastore.Blob{Account: "b", Name: "copy"}})
	p.OK(err, "copy")
	for range 2 { // the second may be from a cache
		p.opens("a", "name")
	}
	d := damageOf(content, inline, 1)
	p.record(d, true)
	p.record(damageOf(content, object, 1), true)
	right := []byte("correct")
	unknown := d
	unknown.Content = p.Content()
	for _, one := range []struct {
		why     string
		damage  metastore.Damage
		damaged []byte
	}{
		{"another body", d, []byte("another")},
		{"no body", d, nil},
		{"an object", damageOf(content, object, 1), nil},
		{"an unknown content", unknown, nil},
	} {
		p.Is(p.Store.HealBody(p.Ctx, one.damage, one.damaged, right), database.ErrNotFound, "healing %s", one.why)
		p.Equal(p.allExtents(content), stored(object, inline, other), "extents after healing %s", one.why)
	}
	p.Must(len(p.damages(10)) == 2, "damage after refused calls: %v", p.damages(10))

	p.OK(p.Store.HealBody(p.Ctx, d, inline.Body, right), "heal")
	healed := inline
	healed.Body = right
	for range 2 {
		p.Equal(p.allExtents(content), stored(object, healed, other), "extents that were healed")
		p.opens("a", "name")
		p.opens("b", "copy")
		p.Equal(p.damages(10)[0].Object, object.Object, "the damaged object after one of two extents was healed")
		p.Must(len(p.damages(10)) == 1, "damage after one of two extents was healed")
		p.Must(len(p.Garbage()) == 0, "garbage after a body was healed")
		p.Reopen()
	}
	p.Must(dbtest.Value(p.Store.PruneDamage(p.Ctx, 10)) == 0, "the record of healed damage was left")
	p.Is(p.Store.HealBody(p.Ctx, d, inline.Body, right), database.ErrNotFound, "healing twice")

	p.remove("a", "name")
	p.remove("b", "copy")
	p.Is(p.Store.HealBody(p.Ctx, d, right, inline.Body), database.ErrNotFound, "healing garbage")
}

// integrityHealBodyRaces heals one body several times at once: one call succeeds.
func integrityHealBodyRaces(p *probe) {
	e := p.Inline(0, 0, []byte("damaged"))
	content := p.commit("name", e)
	d := damageOf(content, e, 1)
	p.record(d, true)
	var won atomic.Int64
	var calls sync.WaitGroup
	for range 6 {
		calls.Go(func() {
			err := p.Store.HealBody(p.Ctx, d, e.Body, []byte("correct"))
			if err == nil {
				won.Add(1)
			} else {
				p.Is(err, database.ErrNotFound, "a heal that lost")
			}
		})
	}
	calls.Wait()
	p.Must(won.Load() == 1, "%d heals of one body succeeded", won.Load())
	e.Body = []byte("correct")
	p.Equal(p.allExtents(content), stored(e), "extents that were healed")
}

// integrityScrub saves how far the scrub is.
func integrityScrub(p *probe) {
	p.Equal(dbtest.Value(p.Store.Scrub(p.Ctx)), metastore.Scrub{}, "a scrub that has not begun")
	now := p.Clock.Now()
	s := metastore.Scrub{Round: 1, Began: now, Running: true, Object: "3f-x", Extents: 7, Bytes: 1 << 40}
	var err error
	s.Revision, err = p.Store.SaveScrub(p.Ctx, s)
	p.OK(err, "save")
	p.Equal(dbtest.Value(p.Store.Scrub(p.Ctx)), s, "the scrub as saved")
	old := s
	s.Bodies, s.Inline, s.Finished = true, metastore.ExtentID{Content: p.Content(), Position: metastore.Position{Part: 3, Offset: 9}}, now.Add(time.Second)
	s.Revision, err = p.Store.SaveScrub(p.Ctx, s)
	p.OK(err, "save")
	_, err = p.Store.SaveScrub(p.Ctx, old)
	p.Is(err, database.ErrNotFound, "saving an older one")
	p.Reopen()
	p.Equal(dbtest.Value(p.Store.Scrub(p.Ctx)), s, "the scrub as saved, after a reopen")
}
