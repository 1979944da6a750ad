package blob

import (
	"sync"
	"time"

	"sluice/metastore"
)

// unfreeable are the contents that could not be freed lately, because the store
// did not delete some of their objects. They are tried again after a pause, and
// meanwhile keep none of those behind them waiting. It is bounded: what falls
// out is tried again sooner.
type unfreeable struct {
	mu       sync.Mutex
	contents map[metastore.ContentID]attempts
}

// attempts are those to free one content.
type attempts struct {
	failed int                // in a row
	again  time.Time          // when to try next
	from   metastore.Position // where this attempt goes on; before it extents are left
}

const (
	firstPause    = time.Minute
	longestPause  = 16 * time.Minute
	maxUnfreeable = 1 << 16
)

func newUnfreeable() *unfreeable {
	return &unfreeable{contents: map[metastore.ContentID]attempts{}}
}

// without returns those of the contents that may be tried now.
func (u *unfreeable) without(contents []metastore.ContentID, now time.Time) []metastore.ContentID {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := contents[:0]
	for _, id := range contents {
		if a, ok := u.contents[id]; !ok || !now.Before(a.again) || a.again.Sub(now) > longestPause { // the clock was set back
			list = append(list, id)
		}
	}
	return list
}

// from returns where to go on with a content.
func (u *unfreeable) from(id metastore.ContentID) metastore.Position {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.contents[id].from
}

// goOn says where to go on with a content in the same attempt.
func (u *unfreeable) goOn(id metastore.ContentID, from metastore.Position) {
	u.mu.Lock()
	defer u.mu.Unlock()
	a := u.contents[id]
	a.from = from
	u.set(id, a)
}

// postpone ends an attempt that failed.
func (u *unfreeable) postpone(id metastore.ContentID, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	a := u.contents[id]
	pause := min(firstPause<<min(a.failed, 10), longestPause)
	u.set(id, attempts{failed: a.failed + 1, again: now.Add(pause)})
}

// forget ends the attempts.
func (u *unfreeable) forget(contents []metastore.ContentID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, id := range contents {
		delete(u.contents, id)
	}
}

func (u *unfreeable) set(id metastore.ContentID, a attempts) {
	if _, known := u.contents[id]; !known && len(u.contents) >= maxUnfreeable {
		for other := range u.contents { // any of them
			delete(u.contents, other)
			break
		}
	}
	u.contents[id] = a
}
