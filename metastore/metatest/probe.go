package metatest

import (
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
	_, _, err := p.Store.DeleteBlob(p.Ctx, account, name, nil)
	p.OK(err, "delete of %q", name)
}
