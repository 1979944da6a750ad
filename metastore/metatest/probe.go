package metatest

import (
	"fmt"
	"sluice/database"
	"sluice/database/dbtest"
	"sluice/metastore"
)

// probe is a running check.
type probe struct{ *dbtest.Probe }

// check returns the check that calls fn with a probe.
func check(name string, fn func(p *probe)) dbtest.Check {
	return dbtest.NewCheck(name, func(p *dbtest.Probe) { fn(&probe{p}) })
}

// extents returns the extents of one part with this size.
func (p *probe) extents(part int, size int64) []metastore.Extent {
	var list []metastore.Extent
	for off := int64(0); off < size; off += metastore.MaxExtentSize {
		list = append(list, p.Extent(part, off, min(metastore.MaxExtentSize, size-off)))
	}
	return list
}

func (p *probe) allExtents(id metastore.ContentID) []metastore.Extent {
	list, err := p.Store.Extents(p.Ctx, id, metastore.Position{}, 1_000_000)
	p.OK(err, "extents of %v", id)
	return list
}

func (p *probe) isGarbage(id metastore.ContentID) bool {
	for _, g := range p.Garbage() {
		if g == id {
			return true
		}
	}
	return false
}

// part stores a part of one extent, and returns the extent.
func (p *probe) part(id string, index int, size int64) metastore.Extent {
	e := p.Extent(index, 0, size)
	p.OK(p.Store.PutPart(p.Ctx, id, metastore.Part{Index: index, Size: size, CRC64: uint64(size)}, []metastore.Extent{e}), "part %d", index)
	return e
}

// stored returns the extents as the method Extents returns them.
func stored(extents ...metastore.Extent) []metastore.Extent {
	list := make([]metastore.Extent, len(extents))
	for i, e := range extents {
		list[i] = e
		list[i].Created = metastore.Extent{}.Created
	}
	return list
}

// remove deletes a blob.
func (p *probe) remove(account, name string) {
	_, _, err := dbtest.Remove(p.Ctx, p.Store, account, name, nil)
	p.OK(err, "delete of %q", name)
}

// put commits a blob of these extents.
func (p *probe) put(b metastore.Blob, extents ...metastore.Extent) metastore.Blob {
	b.Content = p.Content()
	for _, e := range extents {
		b.Size += e.Size
	}
	b, err := p.Store.CommitBlob(p.Ctx, b, extents, nil)
	p.OK(err, "commit of %.40q", b.Name)
	return b
}

// copied copies a blob, without a condition and without restating anything.
func (p *probe) copied(from metastore.Blob, to metastore.Blob) metastore.Blob {
	b, err := p.Store.CopyBlob(p.Ctx, metastore.Copy{From: blobName(from), To: to})
	p.OK(err, "copy of %.40q to %.40q", from.Name, to.Name)
	return b
}

// restated replaces a blob's members that its writer states.
func (p *probe) restated(to metastore.Blob) metastore.Blob {
	b, err := p.Store.CopyBlob(p.Ctx, metastore.Copy{From: blobName(to), To: to, Restated: true})
	p.OK(err, "copy of %.40q onto itself", to.Name)
	return b
}

// reads ends the check unless every method returns this blob with these extents.
func (p *probe) reads(b metastore.Blob, extents []metastore.Extent, format string, a ...any) {
	call := fmt.Sprintf(format, a...)
	got, err := p.Store.Blob(p.Ctx, b.Account, b.Name)
	p.OK(err, "blob %.40q after %s", b.Name, call)
	p.Equal(got, b, "blob after %s", call)
	p.Equal(p.allExtents(b.Content), extents, "extents after %s", call)
	got, first, err := p.Store.OpenBlob(p.Ctx, b.Account, b.Name)
	p.OK(err, "opening %.40q after %s", b.Name, call)
	p.Equal(got, b, "opened blob after %s", call)
	if b.Size > 0 {
		p.Equal(first, extents[:1], "first extent after %s", call)
	}
	page := dbtest.Value(p.Store.ListBlobs(p.Ctx, metastore.ListQuery{Account: b.Account, Prefix: b.Name, Limit: 1, Metadata: true}))
	p.Equal(page.Blobs, []metastore.Blob{b}, "listed blob after %s", call)
}

// missing ends the check unless there is no blob.
func (p *probe) missing(n metastore.BlobName, format string, a ...any) {
	p.Is(dbtest.Error(p.Store.Blob(p.Ctx, n.Account, n.Name)), database.ErrNotFound, format, a...)
}

func blobName(b metastore.Blob) metastore.BlobName {
	return metastore.BlobName{Account: b.Account, Name: b.Name}
}

func named(name string) metastore.BlobName { return metastore.BlobName{Account: "a", Name: name} }
