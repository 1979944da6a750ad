package access

import (
	"context"
	"fmt"
	"sync"
	"time"

	"sluice/metastore"
)

// How long what the store said of a group's usage is good for, and how long it
// may take to say it.
const (
	usageAge  = time.Second
	usageTime = 5 * time.Second
)

// resource is what a quota limits.
type resource int

const (
	storedBytes resource = iota
	storedObjects
	openUploads
	openedChannels
	resources int = iota
)

// amounts are amounts of the resources.
type amounts [resources]int64

// String gives what it is counted in.
func (r resource) String() string {
	return [resources]string{"stored bytes", "stored objects", "open uploads", "channels"}[r]
}

// QuotaError is ErrQuota with the amounts of a resource.
type QuotaError struct {
	Of     string // "stored bytes", "stored objects", "open uploads" or "channels"
	Limit  int64
	Used   int64 // what is stored, or on its way
	Wanted int64 // beside that
}

// Error tells the amounts.
func (e *QuotaError) Error() string {
	return fmt.Sprintf("%s: of %d %s %d are in use, %d more are wanted", ErrQuota, e.Limit, e.Of, e.Used, e.Wanted)
}

// Unwrap gives ErrQuota.
func (e *QuotaError) Unwrap() error { return ErrQuota }

// quota counts what a group has stored: what the store said last, what is
// reserved, and what was stored since the store was asked.
type quota struct {
	usage metastore.Usage
	owner string
	turn  chan struct{} // full while somebody asks the store
	mu    struct {
		sync.Mutex
		used     amounts   // as the store said
		open     amounts   // reserved
		kept     amounts   // stored, and perhaps not in used yet
		asked    time.Time // when the question began to which used is the answer; zero: none was
		began    uint64    // counts the questions
		answered uint64    // the last question that ended
		err      error     // of that
	}
}

func newQuota(usage metastore.Usage, owner string) *quota {
	return &quota{usage: usage, owner: owner, turn: make(chan struct{}, 1)}
}

// reserve sets amounts aside if that keeps within the limits. It refuses only by an
// answer to a question that began after the call.
func (q *quota) reserve(ctx context.Context, limits metastore.Limits, n amounts) (*Reservation, error) {
	r := &Reservation{quota: q, ctx: ctx, limits: amounts{
		storedBytes: limits.StoredBytes, storedObjects: limits.StoredObjects, openUploads: limits.OpenUploads,
		openedChannels: limits.Channels,
	}}
	if err := r.grow(n); err != nil {
		return nil, err
	}
	return r, nil
}

// take counts n as reserved if all of it fits, by an answer to a question that began
// at that time or later. Otherwise it gives the refusal and the number of the
// last question that may not know of all that came before now.
func (q *quota) take(limits, n amounts, since time.Time) (refused *QuotaError, seen uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for of := range resource(resources) {
		if n[of] == 0 {
			continue
		}
		total := q.mu.used[of] + q.mu.open[of] + q.mu.kept[of]
		if n[of] > limits[of]-total || q.mu.asked.Before(since) {
			return &QuotaError{Of: of.String(), Limit: limits[of], Used: total, Wanted: n[of]}, q.mu.began
		}
	}
	for of := range n {
		q.mu.open[of] += n[of]
	}
	return nil, 0
}

// refresh waits for the answer to a question later than seen, and asks it if
// nobody else does.
func (q *quota) refresh(ctx context.Context, seen uint64) error {
	select {
	case q.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-q.turn }()
	q.mu.Lock()
	if q.mu.answered > seen {
		defer q.mu.Unlock()
		return q.mu.err
	}
	q.mu.began++
	asked, kept := time.Now(), q.mu.kept
	q.mu.Unlock()

	// Others wait for the answer too, so it must not depend on this context.
	ctx, cancel := context.WithTimeout(metastore.WithPatience(context.WithoutCancel(ctx), usageTime), usageTime)
	defer cancel()
	used, err := q.usage.Usage(ctx, q.owner)

	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.answered, q.mu.err = q.mu.began, nil
	if err != nil {
		q.mu.err = fmt.Errorf("asking for the usage of %q: %w", q.owner, err)
		return q.mu.err
	}
	q.mu.asked, q.mu.used = asked, amounts{storedBytes: used.Stored(), storedObjects: used.Objects, openUploads: used.Uploads, openedChannels: used.Channels}
	for i, n := range kept {
		q.mu.kept[i] -= n // what was stored before the question is in the answer
	}
	return nil
}

// Reservation is a part of a quota that is set aside for something that is
// being stored. It ends with one Keep or Release. It is for one goroutine.
type Reservation struct {
	quota  *quota
	ctx    context.Context
	limits amounts
	n      amounts // of what has a limit
}

// Grow sets n more bytes aside. A *QuotaError when they do not fit; any other error is
// the store's, which is asked under the context of Reserve. On an error what
// was set aside before stays so.
func (r *Reservation) Grow(n int64) error { return r.grow(amounts{storedBytes: n}) }

func (r *Reservation) grow(n amounts) error {
	for of, limit := range r.limits {
		if limit == metastore.Unlimited {
			n[of] = 0
		}
	}
	if n == (amounts{}) {
		return nil
	}
	refused, seen := r.quota.take(r.limits, n, time.Now().Add(-usageAge))
	if refused != nil {
		if err := r.quota.refresh(r.ctx, seen); err != nil {
			return err
		}
		// However long the answer took, it is the newest there is.
		if refused, _ = r.quota.take(r.limits, n, time.Time{}); refused != nil {
			return refused
		}
	}
	for of := range n {
		r.n[of] += n[of]
	}
	return nil
}

// Keep says that all of it was stored, or may have been. It counts until the
// store, asked later, counts it.
func (r *Reservation) Keep() { r.end(r.n) }

// Release says that nothing of it was stored.
func (r *Reservation) Release() { r.end(amounts{}) }

func (r *Reservation) end(kept amounts) {
	r.quota.mu.Lock()
	defer r.quota.mu.Unlock()
	for of := range r.n {
		r.quota.mu.open[of] -= r.n[of]
		r.quota.mu.kept[of] += kept[of]
	}
}
