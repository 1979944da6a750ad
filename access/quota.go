package access

import (
	"context"
	"fmt"
	"sync"
	"time"

	"sluice/access/keys"
	"sluice/database"
	"sluice/metastore"
)

const (
	maxUsageAge  = time.Second     // how old a usage snapshot may be
	usageTimeout = 5 * time.Second // for a usage query
)

// amounts has an amount for each limit, indexed like keys.LimitKinds. Those of limits that are no
// quotas are not used.
type amounts [len(keys.LimitKinds)]int64

func amountsOf(u metastore.Used) (n amounts) {
	for i, k := range keys.LimitKinds {
		if k.Quota() {
			n[i] = k.Used(u)
		}
	}
	return n
}

func quotasOf(l keys.Limits) (n amounts) {
	for i, k := range keys.LimitKinds {
		n[i] = *k.Of(&l)
	}
	return n
}

// QuotaError is ErrQuota with the amounts.
type QuotaError struct {
	Of     string // "stored bytes", "occupied bytes", "stored objects", "open uploads" or "channels"
	Limit  int64
	Used   int64 // stored or reserved
	Wanted int64 // in addition to that
}

// Error returns a sentence with the amounts.
func (e *QuotaError) Error() string {
	return fmt.Sprintf("%s: of %d %s %d are in use, %d more are wanted", ErrQuota, e.Limit, e.Of, e.Used, e.Wanted)
}

// Unwrap returns ErrQuota.
func (e *QuotaError) Unwrap() error { return ErrQuota }

// quota accounts for a group's blobs, uploads and channels, without a query for each write. It adds
// up three amounts:
//
//   - stored: the last successful query's result, a snapshot that began at snapshotAt;
//   - reserved: reservations that have not ended;
//   - unconfirmed: reservations that ended by Keep and may not be in stored yet.
//
// A write is admitted if it fits in addition to their sum and the snapshot is at most maxUsageAge
// old. Otherwise the store is queried once more before the write is refused, so that a refusal
// takes into account everything deleted before the call. When a query is finished, amounts that
// were unconfirmed before it began are part of its result and are subtracted.
//
// Queries are numbered by querySeq, and answeredSeq is the last one that has ended. A caller
// that needs a query that begins after a certain time waits until answeredSeq is greater than
// the querySeq it has seen at that time: one query serves all callers that wait.
type quota struct {
	usage metastore.Usage
	owner string
	sem   chan struct{} // held while querying the store
	mu    struct {
		sync.Mutex
		stored      amounts
		reserved    amounts
		unconfirmed amounts
		snapshotAt  time.Time // zero: there is no snapshot
		querySeq    uint64
		answeredSeq uint64
		err         error // the last ended query's
	}
}

func newQuota(usage metastore.Usage, owner string) *quota {
	return &quota{usage: usage, owner: owner, sem: make(chan struct{}, 1)}
}

// take reserves n if all of it fits by a snapshot that began at since or later. Otherwise it
// returns the refusal, and the number of the last query that may have missed something from before
// the call.
func (q *quota) take(limits, n amounts, since time.Time) (refused *QuotaError, seen uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, wanted := range n {
		if wanted == 0 {
			continue
		}
		total := q.mu.stored[i] + q.mu.reserved[i] + q.mu.unconfirmed[i]
		if wanted > limits[i]-total || q.mu.snapshotAt.Before(since) {
			return &QuotaError{Of: keys.LimitKinds[i].Name, Limit: limits[i], Used: total, Wanted: wanted}, q.mu.querySeq
		}
	}
	for i := range n {
		q.mu.reserved[i] += n[i]
	}
	return nil, 0
}

// refresh waits until a query later than seen has ended, and makes that query unless another caller
// does.
func (q *quota) refresh(ctx context.Context, seen uint64) error {
	select {
	case q.sem <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-q.sem }()
	q.mu.Lock()
	if q.mu.answeredSeq > seen {
		defer q.mu.Unlock()
		return q.mu.err
	}
	q.mu.querySeq++
	began, confirmed := time.Now(), q.mu.unconfirmed
	q.mu.Unlock()

	// Concurrent calls wait for the result too, so it must not depend on this context.
	ctx, cancel := context.WithTimeout(database.WithPatience(context.WithoutCancel(ctx), usageTimeout), usageTimeout)
	defer cancel()
	used, err := q.usage.Usage(ctx, q.owner)

	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.answeredSeq, q.mu.err = q.mu.querySeq, nil
	if err != nil {
		q.mu.err = fmt.Errorf("querying the usage of %q: %w", q.owner, err)
		return q.mu.err
	}
	q.mu.snapshotAt, q.mu.stored = began, amountsOf(used)
	for i, n := range confirmed {
		q.mu.unconfirmed[i] -= n
	}
	return nil
}

// Reservation is quota that is reserved for something while it is stored. The caller must end it
// with one call of Keep or Release. Its methods must not be called concurrently.
type Reservation struct {
	quota  *quota
	hits   *hits
	ctx    context.Context
	limits amounts
	n      amounts // reserved
}

// Grow reserves n more bytes. It returns a *QuotaError if they do not fit; any other error is
// the store's, which is queried under the context of Reserve. On an error the reservation is
// unchanged.
func (r *Reservation) Grow(n int64) error { return r.grow(amountsOf(metastore.Used{Bytes: n})) }

func (r *Reservation) grow(n amounts) error {
	for i, limit := range r.limits {
		if limit == keys.Unlimited {
			n[i] = 0
		}
	}
	if n == (amounts{}) {
		return nil
	}
	refused, seen := r.quota.take(r.limits, n, time.Now().Add(-maxUsageAge))
	if refused != nil {
		if err := r.quota.refresh(r.ctx, seen); err != nil {
			return err
		}
		// However long the query took, its result is the newest one.
		if refused, _ = r.quota.take(r.limits, n, time.Time{}); refused != nil {
			r.hits[kindNamed(refused.Of)].Add(1)
			return refused
		}
	}
	for i := range n {
		r.n[i] += n[i]
	}
	return nil
}

// Keep ends the reservation for something that was stored, or may have been. It counts until a
// later query includes it.
func (r *Reservation) Keep() { r.end(r.n) }

// Release ends the reservation of something that was not stored.
func (r *Reservation) Release() { r.end(amounts{}) }

func (r *Reservation) end(kept amounts) {
	r.quota.mu.Lock()
	defer r.quota.mu.Unlock()
	for i := range r.n {
		r.quota.mu.reserved[i] -= r.n[i]
		r.quota.mu.unconfirmed[i] += kept[i]
	}
}
