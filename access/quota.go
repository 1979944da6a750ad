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
	openUploads
	resources int = iota
)

// String gives what it is counted in.
func (r resource) String() string {
	return [resources]string{"stored bytes", "open uploads"}[r]
}

// QuotaError is ErrQuota with the amounts, in bytes or uploads.
type QuotaError struct {
	Of     string // "stored bytes" or "open uploads"
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
		used     [resources]int64 // as the store said
		open     [resources]int64 // reserved
		kept     [resources]int64 // stored, and perhaps not in used yet
		asked    time.Time        // when the question began to which used is the answer; zero: none was
		began    uint64           // counts the questions
		answered uint64           // the last question that ended
		err      error            // of that
	}
}

func newQuota(usage metastore.Usage, owner string) *quota {
	return &quota{usage: usage, owner: owner, turn: make(chan struct{}, 1)}
}

// reserve sets n aside if that keeps within the limit. It refuses only by an
// answer to a question that began after the call.
func (q *quota) reserve(ctx context.Context, of resource, limit, n int64) (*Reservation, error) {
	if limit == metastore.Unlimited {
		return &Reservation{}, nil
	}
	r := &Reservation{quota: q, ctx: ctx, of: of, limit: limit}
	if err := r.Grow(n); err != nil {
		return nil, err
	}
	return r, nil
}

// take counts n as reserved if it fits, by an answer to a question that began
// at that time or later. Otherwise it gives the refusal and the number of the
// last question that may not know of all that came before now.
func (q *quota) take(of resource, limit, n int64, since time.Time) (refused *QuotaError, seen uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	total := q.mu.used[of] + q.mu.open[of] + q.mu.kept[of]
	if n > limit-total || q.mu.asked.Before(since) {
		return &QuotaError{Of: of.String(), Limit: limit, Used: total, Wanted: n}, q.mu.began
	}
	q.mu.open[of] += n
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
	q.mu.asked, q.mu.used = asked, [resources]int64{storedBytes: used.Bytes, openUploads: used.Uploads}
	for i, n := range kept {
		q.mu.kept[i] -= n // what was stored before the question is in the answer
	}
	return nil
}

// Reservation is a part of a quota that is set aside for something that is
// being stored. It ends with one Keep or Release. It is for one goroutine.
type Reservation struct {
	quota *quota // nil: nothing is counted
	ctx   context.Context
	of    resource
	limit int64
	n     int64
}

// Grow sets n more aside. A *QuotaError when they do not fit; any other error is
// the store's, which is asked under the context of Reserve. On an error what
// was set aside before stays so.
func (r *Reservation) Grow(n int64) error {
	if r.quota == nil {
		return nil
	}
	refused, seen := r.quota.take(r.of, r.limit, n, time.Now().Add(-usageAge))
	if refused != nil {
		if err := r.quota.refresh(r.ctx, seen); err != nil {
			return err
		}
		// However long the answer took, it is the newest there is.
		if refused, _ = r.quota.take(r.of, r.limit, n, time.Time{}); refused != nil {
			return refused
		}
	}
	r.n += n
	return nil
}

// Keep says that all of it was stored, or may have been. It counts until the
// store, asked later, counts it.
func (r *Reservation) Keep() { r.end(r.n) }

// Release says that nothing of it was stored.
func (r *Reservation) Release() { r.end(0) }

func (r *Reservation) end(kept int64) {
	if r.quota == nil {
		return
	}
	r.quota.mu.Lock()
	defer r.quota.mu.Unlock()
	r.quota.mu.open[r.of] -= r.n
	r.quota.mu.kept[r.of] += kept
}
