package blob

import (
	"sync"
	"time"

	"sluice/metastore"
)

// retries schedules the retries of contents that could not be freed because the byte store did not
// delete some of their objects, so that they do not delay others. Its size is bounded: evicted
// contents are retried sooner.
type retries struct {
	mu       sync.Mutex
	contents map[metastore.ContentID]retry
}

// retry is the state of one content.
type retry struct {
	failed int                // consecutive failures
	again  time.Time          // the next attempt's time
	from   metastore.Position // where the current attempt continues; extents before it could not be freed
}

const (
	firstPause   = time.Minute
	longestPause = 16 * time.Minute
	maxRetries   = 1 << 16
)

func newRetries() *retries {
	return &retries{contents: map[metastore.ContentID]retry{}}
}

// due returns the contents that may be freed now. It reuses the slice.
func (r *retries) due(contents []metastore.ContentID, now time.Time) []metastore.ContentID {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := contents[:0]
	for _, id := range contents {
		// A pause that is too long means that the clock was set back.
		if a, ok := r.contents[id]; !ok || !now.Before(a.again) || a.again.Sub(now) > longestPause {
			list = append(list, id)
		}
	}
	return list
}

// from returns where to continue with a content.
func (r *retries) from(id metastore.ContentID) metastore.Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.contents[id].from
}

// continueFrom sets where to continue with a content in the same attempt.
func (r *retries) continueFrom(id metastore.ContentID, from metastore.Position) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.contents[id]
	a.from = from
	r.set(id, a)
}

// postpone records that an attempt failed.
func (r *retries) postpone(id metastore.ContentID, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.contents[id]
	pause := min(firstPause<<min(a.failed, 10), longestPause)
	r.set(id, retry{failed: a.failed + 1, again: now.Add(pause)})
}

// remove forgets contents that were freed.
func (r *retries) remove(contents []metastore.ContentID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range contents {
		delete(r.contents, id)
	}
}

func (r *retries) set(id metastore.ContentID, a retry) {
	if _, known := r.contents[id]; !known && len(r.contents) >= maxRetries {
		for other := range r.contents { // an arbitrary one
			delete(r.contents, other)
			break
		}
	}
	r.contents[id] = a
}
