package metatest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/database/whole"
	"sluice/metastore"
)

var rootChecks = []dbtest.Check{
	check("roots/life", rootsLife),
	check("roots/follow", rootsFollow),
	check("roots/versions", rootsOfVersions),
	check("roots/rows", rootsRows),
	check("roots/left-out", rootsLeftOut),
	check("roots/race", rootsRace),
}

// rootOf returns the root that checks set for a content with a CRC-64, which its copies have, too.
func rootOf(b metastore.Blob) metastore.ContentRoot {
	root := sha256.Sum256(binary.BigEndian.AppendUint64(nil, b.CRC64))
	tree := sha256.Sum256(root[:])
	return metastore.ContentRoot{Content: b.Content, Root: root[:], Tree: tree[:]}
}

// rooted returns a blob as it is with its root.
func rooted(b metastore.Blob) metastore.Blob {
	of := rootOf(b)
	b.Root, b.Tree = of.Root, of.Tree
	return b
}

// setRoots sets the roots of all contents without one, as the task does, and returns how many.
func (p *probe) setRoots(s whole.Database, limit int) (total int) {
	for after := (metastore.ContentID{}); ; {
		page := dbtest.Value(s.Treeless(p.Ctx, after, limit))
		if len(page) == 0 {
			return total
		}
		var list []metastore.ContentRoot
		for i, content := range page {
			p.Must(bytes.Compare(content[:], after[:]) > 0 && i < limit, "content %v follows %v", content, after)
			after = content
			b, _, err := s.OpenTreeless(p.Ctx, content)
			if errors.Is(err, database.ErrNotFound) { // it was replaced meanwhile
				continue
			}
			p.OK(err, "opening content %v", content)
			list = append(list, rootOf(b))
		}
		p.OK(s.SetRoots(p.Ctx, list), "roots")
		total += len(list)
	}
}

func openTreeless(p *probe, content metastore.ContentID) error {
	_, _, err := p.Store.OpenTreeless(p.Ctx, content)
	return err
}

// treeless ends the check unless so many contents wait.
func (p *probe) treeless(want int, after string) {
	totals := dbtest.Value(p.Store.TreelessTotals(p.Ctx))
	p.Must(totals.Contents == want && totals.Oldest.IsZero() == (want == 0), "%+v wait after %s, want %d", totals, after, want)
}

// shows ends the check unless every method returns a blob with this root, or without one.
func (p *probe) shows(b metastore.Blob, format string, a ...any) {
	call := fmt.Sprintf(format, a...)
	got := dbtest.Value(p.Store.Blob(p.Ctx, b.Account, b.Name))
	p.Equal(got, b, "blob after %s", call)
	got, _, err := p.Store.OpenBlob(p.Ctx, b.Account, b.Name)
	p.OK(err, "opening after %s", call)
	p.Equal(got, b, "opened blob after %s", call)
	for _, q := range []metastore.ListQuery{{Roots: true}, {Metadata: true}, {Roots: true, Metadata: true}, {Roots: true, Delimiter: "/"}, {Delimiter: "/", Metadata: true}, {}} {
		q.Account, q.Prefix, q.Limit = b.Account, b.Name, 1
		listed := b
		if listed.Tree = nil; !q.Roots {
			listed.Root = nil
		}
		if !q.Metadata {
			listed.Metadata = ""
		}
		p.Equal(dbtest.Value(p.Store.ListBlobs(p.Ctx, q)).Blobs, []metastore.Blob{listed}, "list after %s", call)
	}
}

// rootsLife sets roots of new blobs, replaces one, and commits one with a root.
func rootsLife(p *probe) {
	long := string(bytes.Repeat([]byte("n"), 2500))
	one := p.put(metastore.Blob{Account: "a", Name: "one", CRC64: 1, Metadata: "m"}, p.Extent(0, 0, 5))
	two := p.put(metastore.Blob{Account: "b", Name: long, CRC64: 2}, p.Inline(0, 0, []byte("two")))
	p.treeless(2, "two commits")
	p.shows(one, "a commit")
	for _, b := range []metastore.Blob{one, two} {
		got, first, err := p.Store.OpenTreeless(p.Ctx, b.Content)
		p.OK(err, "opening a content")
		p.Must(got.Content == b.Content && got.Size == b.Size && got.CRC64 == b.CRC64, "the blob of a content is %+v", got)
		p.Equal(first, p.allExtents(b.Content)[:1], "first extent")
	}
	behind := 0
	if bytes.Compare(one.Content[:], two.Content[:]) < 0 {
		behind++
	}
	p.Must(len(dbtest.Value(p.Store.Treeless(p.Ctx, one.Content, 10))) == behind, "the contents behind the first are not %d", behind)
	p.Must(p.setRoots(p.Store, 1) == 2, "not both were set")
	p.treeless(0, "both were set")
	p.Is(openTreeless(p, one.Content), database.ErrNotFound, "opening a content with a tree")
	p.shows(rooted(one), "its root was set")
	p.shows(rooted(two), "its root was set, for a long name")
	p.Must(p.setRoots(p.Store, 10) == 0, "contents with roots are listed")
	p.OK(p.Store.SetRoots(p.Ctx, []metastore.ContentRoot{{Content: one.Content, Root: []byte("another"), Tree: []byte("root")}}), "a second root")
	p.shows(rooted(one), "a second root")
	p.Reopen()
	p.shows(rooted(two), "a reopen")

	again := p.put(metastore.Blob{Account: "a", Name: "one", CRC64: 3}, p.Extent(0, 0, 7))
	p.shows(again, "a replacement")
	p.treeless(1, "a replacement")
	p.Begin("upload", "a", "two")
	p.part("upload", 0, 9)
	done := p.Complete("upload")
	p.Must(p.setRoots(p.Store, 10) == 2, "a replacement and an upload have no root to be set")
	p.shows(rooted(dbtest.Value(p.Store.Blob(p.Ctx, "a", done.Name))), "an upload")

	b := rooted(metastore.Blob{Account: "a", Name: "known", CRC64: 4})
	known := p.put(b, p.Extent(0, 0, 8))
	p.Must(bytes.Equal(known.Root, b.Root), "a commit lost its root")
	p.shows(known, "a commit with a root")
	b.Name, b.Tree = "half", nil
	half := p.put(b, p.Extent(0, 0, 8))
	p.shows(half, "a commit with a root, and no tree")
	p.Must(p.setRoots(p.Store, 10) == 1, "the tree is not to be set")
	p.shows(rooted(half), "its tree was set")
	p.Audited()
}

// rootsFollow copies, moves and restates blobs with and without roots.
func rootsFollow(p *probe) {
	for i, e := range [][]metastore.Extent{{p.Extent(0, 0, 5)}, {p.Inline(0, 0, []byte("small"))}} {
		name := func(s string) metastore.Blob { return metastore.Blob{Account: "a", Name: fmt.Sprint(s, i)} }
		b := name("first")
		b.CRC64 = uint64(i + 1)
		p.put(b, e...)
		early := p.copied(b, name("early"))
		contents := 2 - (1 - i)
		p.treeless(contents, "a copy")
		p.Must(p.setRoots(p.Store, 10) == contents, "not all were set")
		p.shows(rooted(early), "a copy before its root was known")
		late := p.copied(early, name("late"))
		p.Must(bytes.Equal(late.Root, rootOf(b).Root), "a copy was returned with another root")
		p.shows(rooted(late), "a copy")
		p.shows(p.restated(late), "it was restated")
		p.Must(len(dbtest.Value(p.Store.Blob(p.Ctx, "a", late.Name)).Root) > 0, "a restated blob lost its root")
		moved := dbtest.Value(p.Store.MoveBlob(p.Ctx, metastore.Move{From: blobName(late), To: named(fmt.Sprint("moved", i))}))
		p.shows(rooted(moved), "a move")
		p.treeless(0, "copies and a move")
	}
}

// rootsOfVersions sets roots of versions that are not current, and restores one.
func rootsOfVersions(p *probe) {
	p.keep()
	first := p.put(metastore.Blob{Account: "a", Name: "name", CRC64: 1, By: "w"}, p.Extent(0, 0, 5))
	p.put(metastore.Blob{Account: "a", Name: "name", CRC64: 2, By: "w"}, p.Extent(0, 0, 6))
	p.remove("a", "name")
	p.treeless(2, "two versions and a mark")
	p.Must(p.setRoots(p.Store, 1) == 2, "not both versions were set")
	list := dbtest.Value(p.Store.ListVersions(p.Ctx, metastore.VersionQuery{ListQuery: metastore.ListQuery{Account: "a", Prefix: "name", Limit: 10, Roots: true}})).Versions
	p.Must(len(list) == 3 && list[0].Mark && list[0].Root == nil, "the versions are %+v", list)
	for _, v := range list[1:] {
		p.Must(bytes.Equal(v.Root, rootOf(v).Root), "version %d has the root %x", v.CRC64, v.Root)
	}
	v := metastore.VersionName{BlobName: named("name"), Version: metastore.VersionOf(&first)}
	opened, _, err := p.Store.OpenVersion(p.Ctx, v)
	p.OK(err, "open")
	p.Must(bytes.Equal(opened.Tree, rootOf(first).Tree), "a version has the tree %x", opened.Tree)
	p.OK(dbtest.Error(p.Store.CopyBlob(p.Ctx, metastore.Copy{FromVersion: &v, To: metastore.Blob{Account: "a", Name: "name"}, Restores: true})), "restore")
	restored := dbtest.Value(p.Store.Blob(p.Ctx, "a", "name"))
	p.Equal(restored, rooted(restored), "a restored version")
	p.treeless(0, "a restoration")
}

// rootsRows stores a content's rows, and removes the content.
func rootsRows(p *probe) {
	b := p.put(metastore.Blob{Account: "a", Name: "name", CRC64: 1}, p.Extent(0, 0, 5))
	other := p.put(metastore.Blob{Account: "a", Name: "other", CRC64: 2}, p.Extent(0, 0, 5))
	row := func(level int, index int64, text string) metastore.TreeRow {
		return metastore.TreeRow{Level: level, Index: index, Hashes: []byte(text)}
	}
	rows := []metastore.TreeRow{row(0, 0, "00"), row(0, 1, "01"), row(1, 0, "10"), row(0, 1<<40, "far")}
	for _, r := range append([]metastore.TreeRow{row(0, 1, "before")}, rows...) {
		p.OK(p.Store.AddTreeRow(p.Ctx, b.Content, r), "row")
		p.OK(p.Store.AddTreeRow(p.Ctx, other.Content, row(r.Level, r.Index, "other")), "row")
	}
	read := func(want bool, after string) {
		for _, r := range rows {
			got, err := p.Store.TreeRow(p.Ctx, b.Content, r.Level, r.Index)
			if !want {
				p.Is(err, database.ErrNotFound, "a row after %s", after)
				continue
			}
			p.OK(err, "row after %s", after)
			p.Equal(got, r.Hashes, "row %d of level %d after %s", r.Index, r.Level, after)
		}
	}
	p.Reopen()
	read(true, "a reopen")
	p.Is(dbtest.Error(p.Store.TreeRow(p.Ctx, b.Content, 2, 0)), database.ErrNotFound, "a row that was not stored")
	p.Is(p.Store.AddTreeRow(p.Ctx, p.Content(), rows[0]), database.ErrNotFound, "a row of no content")
	p.OK(p.Store.SetRoots(p.Ctx, []metastore.ContentRoot{{Content: b.Content, Root: rootOf(b).Root, Tree: metastore.TreeInRows}}), "root")
	p.Equal(dbtest.Value(p.Store.Blob(p.Ctx, "a", "name")).Tree, metastore.TreeInRows, "tree")
	p.Is(p.Store.AddTreeRow(p.Ctx, b.Content, row(0, 0, "late")), database.ErrNotFound, "a row of a content that has a tree")
	p.copied(b, metastore.Blob{Account: "a", Name: "copy"})
	p.remove("a", "name")
	p.drop()
	read(true, "one of two blobs was removed")
	p.remove("a", "copy")
	p.Is(p.Store.AddTreeRow(p.Ctx, b.Content, rows[0]), database.ErrNotFound, "a row of garbage")
	p.drop()
	read(false, "the content was dropped")
	p.Equal(dbtest.Value(p.Store.TreeRow(p.Ctx, other.Content, 1, 0)), []byte("other"), "another content's row")
	p.Audited()
}

// rootsLeftOut checks that neither empty contents, marks and open uploads, nor damaged contents
// wait for a root.
func rootsLeftOut(p *probe) {
	p.keep()
	p.put(metastore.Blob{Account: "a", Name: "empty"})
	p.remove("a", "empty")
	p.Begin("upload", "a", "open")
	p.part("upload", 0, 9)
	e := p.Extent(0, 0, 5)
	damaged := p.put(metastore.Blob{Account: "a", Name: "damaged", CRC64: 1}, e)
	d := damageOf(damaged.Content, e, 1)
	p.record(d, true)
	p.treeless(0, "damage")
	p.Must(p.setRoots(p.Store, 10) == 0, "a content without need was listed")
	p.OK(p.Store.ForgetDamage(p.Ctx, d), "no damage")
	p.treeless(1, "damage was repaired")
	p.Must(p.setRoots(p.Store, 10) == 1, "a repaired content was not listed")
}

// rootsRace replaces, copies, moves and removes blobs on two handles while roots are set. In the
// end each blob has its own content's.
func rootsRace(p *probe) {
	const writers, writes = 3, 40
	handles := []whole.Database{p.Store, p.Open()}
	var left atomic.Int64
	left.Store(writers)
	var all sync.WaitGroup
	errs := make([]error, writers)
	for w := range writers {
		all.Go(func() {
			defer left.Add(-1)
			errs[w] = p.rootWriter(handles[w%2], w, writes)
		})
	}
	for left.Load() > 0 {
		p.setRoots(handles[1], 5)
	}
	all.Wait()
	p.OK(errors.Join(errs...), "writers")
	p.setRoots(p.Store, 7)
	p.treeless(0, "all writers have ended")
	page := dbtest.Value(p.Store.ListBlobs(p.Ctx, metastore.ListQuery{Account: "a", Limit: 1000, Roots: true}))
	p.Must(len(page.Blobs) > 0, "the writers left no blob")
	for _, b := range page.Blobs {
		p.Must(bytes.Equal(b.Root, rootOf(b).Root), "blob %q has the root of another content", b.Name)
	}
}

// rootWriter writes blobs under names that all writers use.
func (p *probe) rootWriter(s whole.Database, w, writes int) error {
	for i := range writes {
		at := named(fmt.Sprint(i % 4))
		b := metastore.Blob{Account: "a", Name: at.Name, Content: p.Content(), Size: 5, CRC64: uint64(w*writes + i + 1)}
		e := p.Extent(0, 0, 5)
		if i%3 == 0 {
			e = p.Inline(0, 0, []byte("bytes"))
		}
		_, err := s.CommitBlob(p.Ctx, b, []metastore.Extent{e}, nil)
		if err == nil && i%2 == 0 {
			_, err = s.CopyBlob(p.Ctx, metastore.Copy{From: at, To: metastore.Blob{Account: "a", Name: fmt.Sprint("copy", (i+w)%3)}})
		}
		if (err == nil || errors.Is(err, metastore.ErrNoSource)) && i%5 == 4 {
			_, err = s.MoveBlob(p.Ctx, metastore.Move{From: at, To: named(fmt.Sprint("moved", w))})
		}
		if err != nil && !errors.Is(err, metastore.ErrNoSource) {
			return err
		}
	}
	return nil
}
