package blob

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"sluice/bytestore"
	"sluice/database"
	"sluice/metastore"
)

// objectsOf returns the extents' names, except inline ones.
func objectsOf(extents []metastore.Extent) []bytestore.Name {
	var names []bytestore.Name
	for i := range extents {
		if name := extents[i].Object; name != "" {
			names = append(names, bytestore.Name(name))
		}
	}
	return names
}

// deleteObjects deletes objects, evenly distributed over concurrent requests, and returns those
// that may still exist.
func (s *Service) deleteObjects(ctx context.Context, names []bytestore.Name) bytestore.Undeleted {
	var (
		workers sync.WaitGroup
		mu      sync.Mutex
		left    = bytestore.Undeleted{}
	)
	for batch := range slices.Chunk(names, max(1, (len(names)+maxDeletes-1)/maxDeletes)) {
		workers.Go(func() {
			var failed bytestore.Undeleted
			select {
			case s.deletes <- struct{}{}:
				failed = bytestore.UndeletedOf(batch, s.bytes.Delete(ctx, batch...))
				<-s.deletes
			case <-ctx.Done():
				failed = bytestore.UndeletedOf(batch, ctx.Err())
			}
			mu.Lock()
			defer mu.Unlock()
			for name, err := range failed {
				left[name] = err
			}
		})
	}
	workers.Wait()
	s.counts.freedObjects.Add(int64(len(names) - len(left)))
	return left
}

// discardTimeout limits the time to clean up after a failed write. What remains is found by the
// orphan sweep.
const discardTimeout = 10 * time.Second

// discard deletes a write's objects after it failed with cause, and returns cause. It deletes
// nothing if the write's outcome is unknown. The delete's error is only mentioned in the returned
// error's text, because it is not the reason why the write failed.
func (s *Service) discard(ctx context.Context, extents []metastore.Extent, cause error) error {
	if errors.Is(cause, database.ErrUnknownOutcome) {
		return cause
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTimeout)
	defer cancel()
	if left := s.deleteObjects(ctx, objectsOf(extents)); len(left) > 0 {
		return fmt.Errorf("%w\nobjects were left to the orphan sweep: %s", cause, left.Error())
	}
	return cause
}
