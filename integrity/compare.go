package integrity

import (
	"context"
	"errors"
	"fmt"

	"sluice/bytestore"
	"sluice/metastore"
)

// comparePage is how many rows are read at a time.
const comparePage = 1_000

// comparing merges the objects that the metadata refer to with a listing.
type comparing struct {
	c    *Checker
	pace Pace

	page  []metastore.StoredExtent // the rest; empty: all rows were read
	last  string                   // the page's last object
	wrong int64                    // rows without an object of their size
}

// advance goes to the next row.
func (m *comparing) advance(ctx context.Context) (err error) {
	if len(m.page) > 1 {
		m.page = m.page[1:]
		return nil
	}
	if len(m.page) == 1 {
		m.last = m.page[0].Object
	}
	m.page, err = m.c.meta.Objects(ctx, m.last, comparePage)
	return err
}

// upTo compares the rows up to an object that was listed, or all that are left if it is nil.
func (m *comparing) upTo(ctx context.Context, o *bytestore.Object) error {
	for len(m.page) > 0 && (o == nil || m.page[0].Object <= string(o.Name)) {
		row := &m.page[0]
		exists := o != nil && row.Object == string(o.Name) && row.Size == o.Size
		if !exists && !row.Garbage {
			if err := m.examine(ctx, row); err != nil {
				return err
			}
		}
		if err := m.advance(ctx); err != nil {
			return err
		}
	}
	return nil
}

// examine reads an object that seems to be damaged, because it may have been stored or deleted
// since it was listed, and records its damage.
func (m *comparing) examine(ctx context.Context, e *metastore.StoredExtent) error {
	if m.wrong++; m.wrong > maxFound {
		return nil
	}
	check := storedCheck{open: m.c.opt.OpenStored, e: &e.Extent, step: m.pace.step(ctx)}
	if err := check.all(ctx); err != nil || check.bad == 0 {
		return err
	}
	return m.c.recordDamage(ctx, check.damage(e.ID()))
}

// ignored returns an error if there was more to examine than maxFound.
func (m *comparing) ignored() error {
	if m.wrong <= maxFound {
		return nil
	}
	return fmt.Errorf("%d objects are missing or have another size than in the metadata; %d of them were examined, and only these are listed as damaged", m.wrong, maxFound)
}

// maxFound bounds the objects that one comparison examines, so that a bucket that has lost
// everything does not fill the database.
const maxFound = 10_000

// CompareObjects lists all objects, without reading them, and looks for those that are missing or
// have another size than in the metadata. It examines these and records damage. It returns the
// number of objects that were listed, and an error if more than 10,000 were wrong: it examines no
// more than that.
func (c *Checker) CompareObjects(ctx context.Context) (listed int64, err error) {
	m := comparing{c: c, pace: c.opt.Pace()}
	if err := m.advance(ctx); err != nil {
		return 0, err
	}
	left := 0 // in this step
	err = c.bytes.List(ctx, "", func(o bytestore.Object) (err error) {
		if listed++; left == 0 {
			if left, err = m.pace(ctx, comparePage); err != nil {
				return err
			}
		}
		left--
		return m.upTo(ctx, &o)
	})
	if err == nil {
		err = m.upTo(ctx, nil)
	}
	return listed, errors.Join(err, m.ignored())
}
