package instance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"sluice/backup"
	"sluice/bytestore"
	"sluice/integrity"
)

// twice calls read again if it returns integrity.ErrCorrupt: an object that seems to be damaged or
// missing may have been on its way to its place, or have changed on its way here.
func twice(read func() error) error {
	err := read()
	if errors.Is(err, integrity.ErrCorrupt) {
		err = read()
	}
	return err
}

// workers is the number of objects that are copied concurrently.
const workers = 8

// copyMissing calls fn for all objects, which are ordered by name, concurrently, and reports to it
// whether target has the object with its size. It merges the two lists. An object with another size
// is deleted first: its Put was cut short.
func copyMissing(ctx context.Context, objects iter.Seq2[backup.Object, error], target bytestore.Store, fn func(ctx context.Context, o backup.Object, exists bool) error) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	type task struct {
		backup.Object
		exists bool
	}
	work := make(chan task)
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for t := range work {
				if err := fn(ctx, t.Object, t.exists); err != nil {
					fail(fmt.Errorf("the object %s: %w", t.Name, err))
				}
			}
		})
	}
	err := backup.Merge(ctx, objects, target, func(o backup.Object, size int64) error {
		if size >= 0 && size != o.Size {
			if err := target.Delete(ctx, o.Name); err != nil {
				return err
			}
		}
		select {
		case work <- task{o, size == o.Size}:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	close(work)
	running.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause // the first error
	}
	return err
}
