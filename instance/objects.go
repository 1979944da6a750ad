package instance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/internal/storage"
	"sluice/metastore"
)

// copyObjects copies the source's objects that the target does not have, and returns how many
// objects there are and their total size. Damaged objects are reported and not stored, and are an
// error when all others are copied.
func (c *cloner) copyObjects(ctx context.Context) (objects, bytes int64, err error) {
	objects, bytes, err = c.source.SQL.CountObjects(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("the source: %w", err)
	}
	c.progress.begin(PhaseBytes, bytes)
	damaged, err := c.copyMissing(ctx)
	if err == nil && damaged > 0 {
		err = fmt.Errorf("objects of the source that are damaged or missing: %d; delete their blobs or write them again, then run the same command again", damaged)
	}
	if err == nil {
		c.progress.end()
	}
	return objects, bytes, err
}

// copyMissing returns the number of damaged objects.
func (c *cloner) copyMissing(ctx context.Context) (damaged int64, err error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var (
		running sync.WaitGroup
		work    = make(chan metastore.Extent)
		bad     atomic.Int64
	)
	for range workers {
		running.Go(func() {
			for e := range work {
				switch err := twice(func() error { return c.copyObject(ctx, e) }); {
				case errors.Is(err, blob.ErrCorrupt):
					bad.Add(1)
					c.progress.damaged(e.Object, err)
				case err != nil:
					fail(fmt.Errorf("copying the object %s: %w", e.Object, err))
				default:
					c.progress.add(e.Size)
				}
			}
		})
	}
	err = c.eachMissing(ctx, func(e metastore.Extent) error {
		select {
		case work <- e:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	close(work)
	running.Wait()
	if cause := context.Cause(ctx); cause != nil {
		err = cause // the first error
	}
	return bad.Load(), err
}

// eachMissing calls fn for each object in the source that the target does not have. It merges
// the two sorted lists of names. An object with another size in the target is deleted and counts as
// missing: an interrupted run's upload was cut short.
func (c *cloner) eachMissing(ctx context.Context, fn func(metastore.Extent) error) error {
	source := storage.ObjectIterator{SQL: c.source.SQL, Live: true}
	next := func() error {
		if err := source.Next(ctx); err != nil {
			return fmt.Errorf("the source: %w", err)
		}
		return nil
	}
	if err := next(); err != nil {
		return err
	}
	before := func(name bytestore.Name) error { // an empty name is after all others
		for !source.Done && (name == "" || source.Current.Object < string(name)) {
			if err := fn(source.Current.Extent); err != nil {
				return err
			}
			if err := next(); err != nil {
				return err
			}
		}
		return nil
	}
	err := c.target.Bytes.List(ctx, "", func(o bytestore.Object) error {
		if err := before(o.Name); err != nil || source.Done || source.Current.Object != string(o.Name) {
			return err
		}
		if o.Size != source.Current.Size {
			return c.target.Bytes.Delete(ctx, o.Name) // the next name is after it
		}
		c.progress.add(o.Size)
		return next()
	})
	if err != nil {
		return err
	}
	return before("")
}

func (c *cloner) copyObject(ctx context.Context, e metastore.Extent) error {
	r, err := c.source.Bytes.Open(ctx, bytestore.Name(e.Object), 0, e.Size)
	if errors.Is(err, bytestore.ErrNotFound) || errors.Is(err, bytestore.ErrTruncated) {
		return fmt.Errorf("%w: %w", blob.ErrCorrupt, err)
	}
	if err != nil {
		return err
	}
	err = c.target.Bytes.Put(ctx, bytestore.Name(e.Object), blob.CheckObject(r, e), e.Size)
	return errors.Join(err, r.Close())
}
