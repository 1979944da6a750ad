package blob

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
	s    *Service
	pace *pacer

	page  []metastore.StoredExtent // the rest; empty: all rows were read
	last  string                   // the page's last object
	wrong int64                    // rows without an object of their size
}

// advance goes to the next row.
func (c *comparing) advance(ctx context.Context) (err error) {
	if len(c.page) > 1 {
		c.page = c.page[1:]
		return nil
	}
	if len(c.page) == 1 {
		c.last = c.page[0].Object
	}
	c.page, err = c.s.meta.Objects(ctx, c.last, comparePage)
	return err
}

// upTo compares the rows up to an object that was listed, or all that are left if it is nil.
func (c *comparing) upTo(ctx context.Context, o *bytestore.Object) error {
	for len(c.page) > 0 && (o == nil || c.page[0].Object <= string(o.Name)) {
		row := &c.page[0]
		exists := o != nil && row.Object == string(o.Name) && row.Size == o.Size
		if !exists && !row.Garbage {
			if err := c.examine(ctx, row); err != nil {
				return err
			}
		}
		if err := c.advance(ctx); err != nil {
			return err
		}
	}
	return nil
}

// examine reads an object that seems to be damaged, because it may have been stored or deleted
// since it was listed, and records what is.
func (c *comparing) examine(ctx context.Context, e *metastore.StoredExtent) error {
	if c.wrong++; c.wrong > maxFound {
		return nil
	}
	check := storedCheck{open: c.s.opt.OpenStored, e: &e.Extent, step: func() error {
		_, err := c.pace.next(ctx, 1)
		return err
	}}
	if err := check.all(ctx); err != nil || check.bad == 0 {
		return err
	}
	return c.s.recordDamage(ctx, check.damage(e.ID()))
}

// ignored returns an error if there was more to examine than maxFound.
func (c *comparing) ignored() error {
	if c.wrong <= maxFound {
		return nil
	}
	return fmt.Errorf("%d objects are missing or have another size than the metadata say; %d of them were examined, and only these are listed as damaged", c.wrong, maxFound)
}

// maxFound bounds what one comparison examines, so that a bucket that has lost everything does not
// fill the database.
const maxFound = 10_000

// CompareObjects lists all objects, without reading them, and looks for those that are missing or
// have another size than the metadata say. It records as damage what proves to be. It returns the
// number of objects that were listed, and an error if more than 10,000 were wrong, which it does
// not examine.
func (s *Service) CompareObjects(ctx context.Context) (listed int64, err error) {
	c := comparing{s: s, pace: s.newPacer()}
	if err := c.advance(ctx); err != nil {
		return 0, err
	}
	left := 0 // in this step
	err = s.bytes.List(ctx, "", func(o bytestore.Object) (err error) {
		if listed++; left == 0 {
			if left, err = c.pace.next(ctx, comparePage); err != nil {
				return err
			}
		}
		left--
		return c.upTo(ctx, &o)
	})
	if err == nil {
		err = c.upTo(ctx, nil)
	}
	return listed, errors.Join(err, c.ignored())
}
