package access

import (
	"container/list"
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"sluice/metastore"
)

// patience is how long a request waits for its turn under the request rate.
const patience = 2 * time.Second

// Allowance is what the requests of one group of keys, or of one address, may
// use together on this node. Its methods may be called at once from many
// goroutines, by requests that have entered.
type Allowance struct {
	holder   holder
	name     string // of the holder, made once since each upload asks for it
	limits   atomic.Pointer[metastore.Limits]
	working  atomic.Int64 // requests that have entered and not left
	held     atomic.Int64 // see Hold
	requests requests
	in, out  *pacer
	quota    *quota
	recent   *list.Element // in the Limiter's list, nil when it is not; guarded by the Limiter's lock
}

func newAllowance(h holder, usage metastore.Usage) *Allowance {
	name := "group " + h.group
	if h.group == "" {
		name = "network " + h.network.String()
	}
	return &Allowance{holder: h, name: name, in: newPacer(), out: newPacer(), quota: newQuota(usage, h.group)}
}

// keep makes these the limits. A bucket whose rate changes begins anew, full:
// what was owed at the old rate could take for ever at the new one. The caller
// has the Limiter's lock.
func (a *Allowance) keep(limits metastore.Limits) {
	var old metastore.Limits // no valid limit is 0
	if had := a.limits.Load(); had != nil {
		old = *had
	}
	if limits == old {
		return
	}
	if limits.RequestsPerSecond != old.RequestsPerSecond {
		a.requests.limit(limits.RequestsPerSecond)
	}
	if limits.BytesInPerSecond != old.BytesInPerSecond {
		a.in.limit(limits.BytesInPerSecond)
	}
	if limits.BytesOutPerSecond != old.BytesOutPerSecond {
		a.out.limit(limits.BytesOutPerSecond)
	}
	a.limits.Store(&limits)
}

// Holder returns the name of whose the Allowance is, which no other has.
func (a *Allowance) Holder() string { return a.name }

// Limits are those in force: each is above 0 or metastore.Unlimited.
func (a *Allowance) Limits() metastore.Limits { return *a.limits.Load() }

// Enter lets a request in; leave must be called once, when it has ended. It
// takes one of the concurrent requests, or fails with ErrConcurrent at once.
// Then it takes a request of the rate, for which it waits up to 2 s. When that
// would not do it fails with a *RateError at once. A request that is refused has
// used nothing up.
func (a *Allowance) Enter(ctx context.Context) (leave func(), err error) {
	if !a.takeSlot() {
		return nil, ErrConcurrent
	}
	leave = func() { a.working.Add(-1) }
	if err := a.requests.take(ctx); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// takeSlot counts a request in, unless as many are at work as may be.
func (a *Allowance) takeSlot() bool {
	limit := a.Limits().ConcurrentRequests
	for {
		working := a.working.Load()
		if limit != metastore.Unlimited && working >= limit {
			return false
		}
		if a.working.CompareAndSwap(working, working+1) {
			return true
		}
	}
}

// Hold counts a request whose reply is not sent to its end; release must be
// called once, when it is. It reports false, and has counted nothing, when so many
// are held already that their holder does not take them: twice the concurrent
// requests, and 16 more for those that are just ending. Requests that are
// refused are held, too: so it bounds what a holder who takes no reply costs.
func (a *Allowance) Hold() (release func(), ok bool) {
	const ending = 16
	limit := a.Limits().ConcurrentRequests
	if a.held.Add(1) > 2*limit+ending && limit != metastore.Unlimited {
		a.held.Add(-1)
		return nil, false
	}
	return func() { a.held.Add(-1) }, true
}

// Requests tells how many requests may enter now without waiting, if not too
// many are at work, and after what time it would be a whole second's again.
// Without a limit: math.MaxInt64 and 0.
func (a *Allowance) Requests() (left int64, full time.Duration) { return a.requests.state() }

// PaceIn waits until n more bytes of bodies of requests may come in, n being at
// most ChunkIn(). Those who wait at once get their turn in the order in which
// they came, so that the streams of one group have equal shares. An error is
// the context's; then what was asked for is left to the others.
func (a *Allowance) PaceIn(ctx context.Context, n int) error { return a.in.wait(ctx, n) }

// PaceOut is PaceIn for bytes of bodies of replies and ChunkOut().
func (a *Allowance) PaceOut(ctx context.Context, n int) error { return a.out.wait(ctx, n) }

// ChunkIn is how much PaceIn is best asked for at once: 100 ms of the rate, at
// least 1 byte and at most 1 MiB. More is waited for in steps of that size.
func (a *Allowance) ChunkIn() int64 { return a.in.chunk() }

// ChunkOut is ChunkIn for PaceOut.
func (a *Allowance) ChunkOut() int64 { return a.out.chunk() }

// Reserve sets a part of the group's quota aside for a blob of that name and size, 0
// when it is not known; the name of a part is empty. It is an object, and takes
// metastore.Charge of bytes beside its own. A *QuotaError when it does not fit beside what is stored
// and what else is set aside; any other error is the store's. A refusal knows of
// all that was deleted before the call. It may count twice what was stored just
// now and is not kept yet, so that of several at once one is refused that would
// just fit. The quota is never exceeded through one node. Of other nodes it does
// not see what they stored within the last second or have set aside.
func (a *Allowance) Reserve(ctx context.Context, name string, size int64) (*Reservation, error) {
	charge := metastore.Charge(name)
	return a.quota.reserve(ctx, a.Limits(), amounts{storedBytes: charge + min(size, math.MaxInt64-charge), storedObjects: 1})
}

// ReserveUpload sets a part of the group's quota aside for an upload that begins, of
// a blob of that name, like Reserve.
func (a *Allowance) ReserveUpload(ctx context.Context, name string) (*Reservation, error) {
	return a.quota.reserve(ctx, a.Limits(), amounts{storedBytes: metastore.Charge(name), openUploads: 1})
}

// ReserveChannel sets a part of the group's quota aside for a channel that is opened,
// like Reserve.
func (a *Allowance) ReserveChannel(ctx context.Context) (*Reservation, error) {
	return a.quota.reserve(ctx, a.Limits(), amounts{openedChannels: 1})
}

// RateError is ErrRate with the time after which the request would have been
// let in.
type RateError struct{ RetryAfter time.Duration }

// Error tells the time.
func (e *RateError) Error() string { return fmt.Sprintf("%s: try again in %v", ErrRate, e.RetryAfter) }

// Unwrap gives ErrRate.
func (e *RateError) Unwrap() error { return ErrRate }

// requests is the request rate: a bucket of one second.
type requests struct {
	bucket atomic.Pointer[rate.Limiter] // nil: no limit
	mu     sync.Mutex                   // makes a look ahead one step
}

// limit makes this the rate.
func (r *requests) limit(perSecond int64) {
	if perSecond == metastore.Unlimited {
		r.bucket.Store(nil)
		return
	}
	r.bucket.Store(rate.NewLimiter(rate.Limit(perSecond), int(perSecond)))
}

// take takes a request, or nothing when that would take longer than patience.
func (r *requests) take(ctx context.Context) error {
	bucket := r.bucket.Load()
	if bucket == nil {
		return nil
	}
	turn, delay := r.reserve(bucket)
	if delay > patience {
		return &RateError{RetryAfter: delay}
	}
	if err := sleep(ctx, delay); err != nil {
		turn.Cancel()
		return err
	}
	return nil
}

// reserve takes the next turn, unless it is too far away.
func (r *requests) reserve(bucket *rate.Limiter) (*rate.Reservation, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	turn := bucket.ReserveN(now, 1)
	delay := turn.DelayFrom(now)
	if delay > patience {
		turn.CancelAt(now)
	}
	return turn, delay
}

func (r *requests) state() (left int64, full time.Duration) {
	bucket := r.bucket.Load()
	if bucket == nil {
		return math.MaxInt64, 0
	}
	tokens := bucket.Tokens()
	missing := (float64(bucket.Burst()) - tokens) / float64(bucket.Limit())
	return int64(max(0, tokens)), time.Duration(missing * float64(time.Second))
}
