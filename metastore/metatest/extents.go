package metatest

import (
	"errors"
	"slices"
	"strings"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/metastore"
)

func blobExtentAge(p *probe) {
	p.Begin("upload", "a", "by-parts")
	for _, c := range []struct {
		age   time.Duration
		stale bool
	}{
		{0, false}, {-time.Minute, false},
		{metastore.MaxExtentAge, false},
		{metastore.MaxExtentAge + time.Microsecond, true},
		{10 * metastore.MaxExtentAge, true},
	} {
		for _, verb := range []string{"commit", "part"} {
			extents := []metastore.Extent{p.Extent(0, 0, 1), p.Extent(0, 1, 1)}
			extents[1].Created = p.Clock.Now().Add(-c.age)
			var err error
			if verb == "commit" {
				_, err = p.Store.CommitBlob(p.Ctx, metastore.Blob{Account: "a", Name: c.age.String(), Content: p.Content(), Size: 2}, extents, nil)
			} else {
				err = p.Store.PutPart(p.Ctx, "upload", metastore.Part{Size: 2}, extents)
			}
			if !c.stale {
				p.OK(err, "%s of an extent aged %v", verb, c.age)
				continue
			}
			p.Is(err, metastore.ErrStaleExtent, "%s of an extent aged %v", verb, c.age)
			free := dbtest.Value(p.Store.Unreferenced(p.Ctx, []string{extents[0].Object, extents[1].Object}))
			p.Must(len(free) == 2, "a refused %s stored an extent", verb)
		}
	}
	e := p.Inline(0, 0, []byte("x"))
	e.Created = p.Clock.Now().Add(-100 * metastore.MaxExtentAge)
	dbtest.Value(p.Store.CommitBlob(p.Ctx, metastore.Blob{Account: "a", Name: "inline", Content: p.Content(), Size: 1}, []metastore.Extent{e}, nil))
}

// blobOversize stores values larger than any caller passes: each is refused or stored completely,
// never truncated.
func blobOversize(p *probe) {
	long := strings.Repeat("0123456789abcdef", 1<<16)
	for i, b := range []metastore.Blob{
		{Account: "a", Name: long}, {Account: long, Name: "n"}, {Account: "b", Name: "n", ContentType: long},
	} {
		b.Content, b.Size = p.Content(), int64(len(long))
		e := p.Inline(0, 0, []byte(long))
		got, err := p.Store.CommitBlob(p.Ctx, b, []metastore.Extent{e}, nil)
		if err != nil {
			p.Is(dbtest.Error(p.Store.Blob(p.Ctx, b.Account, b.Name)), database.ErrNotFound, "blob %d that was refused", i)
			continue
		}
		again, err := p.Store.Blob(p.Ctx, b.Account, b.Name)
		p.OK(err, "blob %d", i)
		p.Equal(again, got, "blob %d", i)
		p.Must(again.ContentType == b.ContentType, "content type of blob %d was changed", i)
		p.Equal(p.allExtents(b.Content), stored(e), "extents of blob %d", i)
	}
	for _, cut := range []int{100, 2000, 3072, 1 << 16} {
		p.Is(dbtest.Error(p.Store.Blob(p.Ctx, "a", long[:cut])), database.ErrNotFound, "name cut at %d", cut)
	}
}

// extentPaging reads a content's extents from every position.
func extentPaging(p *probe) {
	p.Begin("upload", "a", "name")
	var all []metastore.Extent
	for _, part := range []int{0, 1, 2, 5} {
		extents := []metastore.Extent{p.Extent(part, 0, 3), p.Inline(part, 3, []byte("abcd")), p.Extent(part, 7, 1), p.Extent(part, 8, 12)}
		p.OK(p.Store.PutPart(p.Ctx, "upload", metastore.Part{Index: part, Size: 20}, extents), "part")
		all = append(all, stored(extents...)...)
	}
	content := p.Complete("upload").Content
	for part := range 8 {
		for off := range int64(23) {
			first := 0
			for first < len(all) && (all[first].Part < part || all[first].Part == part && all[first].Offset+all[first].Size <= off) {
				first++
			}
			for _, limit := range []int{1, 2, 3, 5, 100} {
				got := dbtest.Value(p.Store.Extents(p.Ctx, content, metastore.Position{Part: part, Offset: off}, limit))
				want := all[first:min(first+limit, len(all))]
				p.Must(len(got) == len(want), "%d extents from part %d offset %d by %d, want %d", len(got), part, off, limit, len(want))
				if len(want) > 0 {
					p.Equal(got, want, "extents from part %d offset %d by %d", part, off, limit)
				}
			}
		}
	}
	got := dbtest.Value(p.Store.Extents(p.Ctx, p.Content(), metastore.Position{}, 10))
	p.Must(len(got) == 0, "an unknown content has extents")
}

// blobLargest commits the largest possible blob, of 5 TiB, over another, and checks its beginning,
// middle, end and all its keys. Then it is overwritten.
func blobLargest(p *probe) {
	const size = 5 << 40
	old, _ := p.Put("a", "name")
	extents := p.largeExtents(size / metastore.MaxExtentSize)
	b, err := p.Store.CommitBlob(p.Ctx, metastore.Blob{Account: "a", Name: "name", Content: p.Content(), Size: size, Owner: "o"}, extents, nil)
	p.OK(err, "commit of %d extents", len(extents))
	p.Equal(dbtest.Value(p.Open().Blob(p.Ctx, "a", "name")), b, "blob")
	p.Equal(p.Garbage(), []metastore.ContentID{old.Content}, "garbage")
	for _, at := range []int{0, 1, 2047, 2048, len(extents) / 2, len(extents) - 1} {
		end := min(at+3, len(extents))
		part := dbtest.Value(p.Store.Extents(p.Ctx, b.Content, metastore.Position{Offset: extents[at].Offset}, 3))
		p.Equal(part, stored(extents[at:end]...), "extents from the %dth", at)
	}
	for some := range slices.Chunk(extents, 1000) {
		keys := make([]string, 0, len(some))
		for _, e := range some {
			keys = append(keys, e.Object)
		}
		free := dbtest.Value(p.Store.Unreferenced(p.Ctx, keys))
		p.Must(len(free) == 0, "%d of the objects are not referenced", len(free))
	}
	used := dbtest.Value(p.Store.Usage(p.Ctx, "o"))
	p.Must(used.Bytes == size, "%d bytes are used", used.Bytes)
	p.Put("a", "name")
	p.Must(p.isGarbage(b.Content), "the overwritten content is not garbage")
}

// blobLargeRefused commits a blob with many extents twice: its precondition refuses it, and then
// its last extent is too old. Nothing may be visible or count as used, and the extents stored ahead
// must be due garbage.
func blobLargeRefused(p *probe) {
	const n = 5000
	old, _ := p.Put("a", "name")
	refused := errors.New("refused")
	for _, want := range []error{refused, metastore.ErrStaleExtent} {
		extents := p.largeExtents(n)
		var precondition metastore.Precondition
		if errors.Is(want, refused) {
			precondition = func(*metastore.Blob) error { return refused }
		} else {
			extents[n-1].Created = p.Clock.Now().Add(-metastore.MaxExtentAge - time.Second)
		}
		content := p.Content()
		_, err := p.Store.CommitBlob(p.Ctx,
			metastore.Blob{Account: "a", Name: "name", Content: content, Size: n * metastore.MaxExtentSize, Owner: "o"}, extents, precondition)
		p.Is(err, want, "commit of %d extents", n)
		p.Equal(dbtest.Value(p.Store.Blob(p.Ctx, "a", "name")), old, "blob after a refused commit")
		p.Must(p.isGarbage(content) || len(p.allExtents(content)) == 0, "the extents stored ahead of a refused commit are not due garbage")
		used := dbtest.Value(p.Store.Usage(p.Ctx, "o"))
		p.Must(used.Bytes == 0, "%d bytes of a refused commit are used", used.Bytes)
	}
}
