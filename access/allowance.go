package access

import (
	"container/list"
	"context"
	"errors"
	"math"
	"net/netip"
	"sync/atomic"
	"time"

	"sluice/access/keys"
	"sluice/metastore"
)

// Allowance has the limits that requests from one group of keys, or one client address, share on
// this node. Its methods may be called concurrently, and not after Release.
type Allowance struct {
	holder   holder
	release  func(*Allowance) // the Limiter's
	name     string           // the holder's, formatted once because each upload uses it
	limits   atomic.Pointer[limits]
	working  atomic.Int64 // requests that have entered and not left
	held     atomic.Int64 // see Hold
	requests requestRate
	in, out  *pacer
	quota    *quota
	hits     *hits

	// Guarded by the Limiter's lock.
	users int           // calls of OfKey and OfAddress without a Release
	idle  *list.Element // in the Limiter's list; nil while there are users
}

// limits are the limits in force.
type limits struct {
	own    keys.Limits // as the store has them, before defaults
	all    keys.Limits // each is above 0 or Unlimited
	quotas amounts
}

func newAllowance(h holder, usage metastore.Usage, hits *hits, release func(*Allowance)) *Allowance {
	name := "group " + h.group
	if h.group == "" {
		name = "network " + h.network.String()
	}
	return &Allowance{
		holder: h, release: release, name: name, hits: hits, quota: newQuota(usage, h.group),
		in: newPacer(&hits[kindBytesIn]), out: newPacer(&hits[kindBytesOut]),
	}
}

// setLimits sets the limits. When a bucket's rate changes, it becomes full: a debt at the old rate
// could take arbitrarily long to repay at the new one. The caller holds the Limiter's lock.
func (a *Allowance) setLimits(own, defaults keys.Limits) {
	old := a.limits.Load()
	if old == nil {
		old = &limits{} // no valid limit is 0
	} else if own == old.own {
		return
	}
	all := own.Resolve(defaults)
	if all.RequestsPerSecond != old.all.RequestsPerSecond {
		a.requests.setLimit(all.RequestsPerSecond)
	}
	if all.BytesInPerSecond != old.all.BytesInPerSecond {
		a.in.setLimit(all.BytesInPerSecond)
	}
	if all.BytesOutPerSecond != old.all.BytesOutPerSecond {
		a.out.setLimit(all.BytesOutPerSecond)
	}
	a.limits.Store(&limits{own: own, all: all, quotas: quotasOf(all)})
}

// Release ends the use of an Allowance. It must be called once for each call that returned it, of
// OfKey or OfAddress.
func (a *Allowance) Release() { a.release(a) }

// Holder returns a name for the group or network, which is unique among Allowances.
func (a *Allowance) Holder() string { return a.name }

// Limits returns the limits in force. Each is above 0 or keys.Unlimited.
func (a *Allowance) Limits() keys.Limits { return a.limits.Load().all }

// Enter admits a request. The caller must call leave once when the request has ended.
//
// Enter first takes a slot for concurrent requests. It returns ErrConcurrent immediately if there
// is none. Then it waits up to 2 s for the request rate to permit the request. It returns a
// *RateError immediately if that would take longer, and ctx's error if ctx ends first. A refused
// request uses up nothing.
func (a *Allowance) Enter(ctx context.Context) (leave func(), err error) {
	return a.enter(ctx, maxWait)
}

// EnterNow is Enter without a wait: it returns a *RateError if the request would have to wait.
func (a *Allowance) EnterNow() (leave func(), err error) { return a.enter(context.Background(), 0) }

func (a *Allowance) enter(ctx context.Context, patience time.Duration) (leave func(), err error) {
	if !a.takeSlot() {
		a.hits[kindConcurrent].Add(1)
		return nil, ErrConcurrent
	}
	leave = func() { a.working.Add(-1) }
	if err := a.requests.take(ctx, 1, patience); err != nil {
		leave()
		if errors.Is(err, ErrRate) {
			a.hits[kindRequests].Add(1)
		}
		return nil, err
	}
	return leave, nil
}

// Take counts a request that has entered as n more requests, for work beyond a request's own. Like
// Enter it waits up to 2 s for the request rate, and returns a *RateError or the error of ctx; then
// nothing more is counted. At most as many requests are counted as the rate permits in a second.
func (a *Allowance) Take(ctx context.Context, n int) error {
	if n <= 0 {
		return nil
	}
	err := a.requests.take(ctx, n, maxWait)
	if errors.Is(err, ErrRate) {
		a.hits[kindRequests].Add(1)
	}
	return err
}

func (a *Allowance) takeSlot() bool {
	limit := a.Limits().ConcurrentRequests
	for {
		working := a.working.Load()
		if limit != keys.Unlimited && working >= limit {
			return false
		}
		if a.working.CompareAndSwap(working, working+1) {
			return true
		}
	}
}

// Hold counts a request until its response has been sent completely. The caller must call release
// once when it has been; that may be after Release. Hold returns false, and counts nothing, if
// twice the limit of concurrent requests, and 16 more for those that are just ending, are held
// already. Since refused requests are held as well, it bounds a client's cost if it does not read
// its responses.
func (a *Allowance) Hold() (release func(), ok bool) {
	const ending = 16
	limit := a.Limits().ConcurrentRequests
	if a.held.Add(1) > 2*limit+ending && limit != keys.Unlimited {
		a.held.Add(-1)
		a.hits[kindConcurrent].Add(1)
		return nil, false
	}
	return func() { a.held.Add(-1) }, true
}

// Requests returns how many requests the rate admits now without waiting, and how long it takes
// until that is a whole second's requests again. Without a limit it returns math.MaxInt64 and 0.
func (a *Allowance) Requests() (left int64, full time.Duration) { return a.requests.state() }

// Spend takes n more requests from the request rate, for a request that costs as much as several.
// It never waits: later requests do, until the rate has made up for it. It takes at most one
// second's requests.
func (a *Allowance) Spend(n int64) { a.requests.spend(n) }

// PaceIn waits until n more bytes of request bodies may be read; n should be at most ChunkIn().
// Concurrent calls are served in the order in which they were made, so that one group's concurrent
// streams have equal shares. It returns ctx's error if ctx ends first; then it uses up no byte.
func (a *Allowance) PaceIn(ctx context.Context, n int) error { return a.in.wait(ctx, n) }

// PaceOut is PaceIn for the bytes of response bodies and ChunkOut().
func (a *Allowance) PaceOut(ctx context.Context, n int) error { return a.out.wait(ctx, n) }

// ChunkIn returns for how many bytes PaceIn should be called at a time: those that the rate allows
// in 100 ms, at least 1 byte and at most 1 MiB. PaceIn waits for more in steps of that size.
func (a *Allowance) ChunkIn() int64 { return a.in.chunk() }

// ChunkOut is ChunkIn for PaceOut.
func (a *Allowance) ChunkOut() int64 { return a.out.chunk() }

// Reserve reserves quota for a blob of that name, metastore.Blob.Metadata and size; the size is 0
// if it is not known yet. Name and metadata are empty for an upload's part. The blob counts as one
// object and takes metastore.Charge(name, metadata) bytes in addition to its size. As many are
// reserved from the occupied bytes, even if the blob replaces another, which is then garbage.
//
// It returns a *QuotaError if the blob does not fit in addition to everything stored and to all
// other reservations; any other error is the store's. A refusal takes into account all deletions
// that ended before the call. It may count a recently stored blob twice, so that one of several
// concurrent calls is refused that would just fit. The quota is never exceeded through one node;
// bytes that other nodes have reserved, or stored within the last second, are not counted.
func (a *Allowance) Reserve(ctx context.Context, name, metadata string, size int64) (*Reservation, error) {
	size = min(size, math.MaxInt64-metastore.Charge(name, metadata))
	return a.reserve(ctx, metastore.Used{Bytes: size, Objects: 1, Names: int64(len(name) + len(metadata))})
}

// ReserveUpload reserves quota for an upload that begins, to a blob with that name and Metadata,
// and for its outcome. It returns the same errors as Reserve.
func (a *Allowance) ReserveUpload(ctx context.Context, name, metadata string) (*Reservation, error) {
	return a.reserve(ctx, metastore.Used{Uploads: 1, Names: int64(len(name) + len(metadata)), Retained: metastore.OutcomeCharge(name)})
}

// ReserveChannel reserves quota for a channel that is opened, and for the request's record if it is
// recorded. It returns the same errors as Reserve.
func (a *Allowance) ReserveChannel(ctx context.Context, recorded bool) (*Reservation, error) {
	wanted := metastore.Used{Channels: 1}
	if recorded {
		wanted.Retained = metastore.RowCharge
	}
	return a.reserve(ctx, wanted)
}

// ReserveRecord reserves quota for a request's record. It returns the same errors as Reserve.
func (a *Allowance) ReserveRecord(ctx context.Context) (*Reservation, error) {
	return a.reserve(ctx, metastore.Used{Retained: metastore.RowCharge})
}

// ReserveRename reserves the quota that a blob of the same owner takes under another name. It
// returns the same errors as Reserve.
func (a *Allowance) ReserveRename(ctx context.Context, from, to string) (*Reservation, error) {
	return a.reserve(ctx, metastore.Used{Names: int64(max(0, len(to)-len(from)))})
}

func (a *Allowance) reserve(ctx context.Context, wanted metastore.Used) (*Reservation, error) {
	r := &Reservation{quota: a.quota, hits: a.hits, ctx: ctx, limits: a.limits.Load().quotas}
	if err := r.grow(amountsOf(wanted)); err != nil {
		return nil, err
	}
	return r, nil
}

// holder identifies an Allowance: by the group of keys, or by the network.
type holder struct {
	group   string
	network netip.Prefix
}
