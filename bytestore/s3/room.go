package s3

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"sluice/bytestore"
)

// room is the bytes that bodies on their way out may take together. A body takes
// what it needs as its bytes come, and waits where there is none. Who waits may
// count on this:
//
//   - The body that has been here longest, of those that still come, has room for
//     all of it: the others leave as much free as the longest of them needs. So
//     one is always completed and sent, and those that come never wait for each
//     other in a circle.
//   - A body of which nothing comes for a while gives way: it loses what it has
//     taken, and fails when more of it comes.
//   - A caller whose bodies take no more than their share, which is the same for
//     each caller at work, comes before those whose bodies take more. Where it has
//     to wait for long all the same, bodies of theirs give way: first that of which
//     nothing came for the longest time.
type room struct {
	limit int64
	stall time.Duration // after which a body gives way; three times that is long
	wait  time.Duration // for room, at most
	began time.Time

	mu      sync.Mutex
	used    int64
	bodies  []*claim                 // in the order in which they came
	granted map[string]time.Duration // when bodies of each caller got something last
	changed chan struct{}            // closed when there is more room, or another order
}

// claim is what a body has of a room. All but the first group is under the lock
// of the room.
type claim struct {
	caller string
	free   func() // gives back what the body holds; from any goroutine

	expected int64         // bytes of the whole body
	bytes    int64         // taken
	last     time.Duration // when a byte came last, since the room began
	waiting  bool          // for room
	long     bool          // it had to wait for long, and no body of its caller got anything
	whole    bool          // nothing more comes; it is being sent
	lost     bool          // it had to give way
}

// unknownBody is how long a body of unknown length is expected to be: as long as
// the longest extents on an object store. It is a guess, which only orders who
// waits for whom.
const unknownBody = 16 << 20

func newRoom(limit int64, stall, wait time.Duration) *room {
	return &room{limit: limit, stall: stall, wait: wait, began: time.Now(), granted: map[string]time.Duration{}, changed: make(chan struct{})}
}

// enter makes the claim of a body, of no bytes yet. size may be
// bytestore.UnknownSize. free is called, once at most, when the body has to give
// way. The caller calls leave.
func (r *room) enter(ctx context.Context, size int64, free func()) *claim {
	if size == bytestore.UnknownSize {
		size = min(unknownBody, r.limit/4)
	}
	c := &claim{caller: bytestore.Caller(ctx), free: free, expected: size}
	r.mu.Lock()
	defer r.mu.Unlock()
	c.last = r.now()
	r.bodies = append(r.bodies, c)
	return c
}

// leave gives back all of the claim.
func (r *room) leave(c *claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(c)
	r.wake()
}

// came notes that bytes of the body came.
func (r *room) came(c *claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.last = r.now()
}

// complete says that the body is whole: it does not give way any more, and those
// behind it move up. It fails when it had to give way before.
func (r *room) complete(c *claim) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.lost {
		return r.gaveWay()
	}
	c.whole = true
	r.wake()
	return nil
}

// take makes the claim one of n bytes, and waits until there is room for it.
// bytestore.ErrOverloaded when that does not come within the wait, when there can
// never be, or when the body had to give way.
func (r *room) take(ctx context.Context, c *claim, n int64) error {
	begun := time.Now()
	for {
		changed, done, err := r.try(c, n, time.Since(begun))
		if done || err != nil {
			return err
		}
		// Bodies stall without a sign.
		again := time.NewTimer(min(r.stall, r.wait)/4 + time.Millisecond)
		select {
		case <-changed:
		case <-again.C:
		case <-ctx.Done():
			err = ctx.Err()
		}
		again.Stop()
		if err != nil {
			return err
		}
	}
}

// try makes the claim one of n bytes if it can. If not, changed is closed when it
// may be worth another try.
func (r *room) try(c *claim, n int64, waited time.Duration) (changed <-chan struct{}, done bool, err error) {
	var gone []*claim
	defer func() {
		for _, v := range gone {
			v.free()
		}
	}()
	r.mu.Lock()
	defer r.mu.Unlock()
	c.expected = max(c.expected, n)
	c.long = c.long || min(waited, r.now()-r.granted[c.caller]) >= 3*r.stall
	for !c.lost && !r.fits(c, n) {
		v := r.victim(c, n)
		if v == nil {
			break
		}
		v.lost = true
		r.remove(v)
		r.wake()
		gone = append(gone, v)
	}
	c.waiting, c.last = false, r.now()
	switch {
	case c.lost:
		return nil, false, r.gaveWay()
	case r.fits(c, n):
		r.used += n - c.bytes
		c.bytes = n
		r.granted[c.caller] = r.now()
		return nil, true, nil
	case n > r.limit, waited >= r.wait:
		return nil, false, fmt.Errorf("%w: bodies of %d bytes wait to be sent already, and at most %d may",
			bytestore.ErrOverloaded, r.used, r.limit)
	}
	c.waiting = true
	return r.changed, false, nil
}

// fits reports whether there is room for the claim to be one of n bytes.
func (r *room) fits(c *claim, n int64) bool {
	oldest := r.oldest()
	if oldest == nil || oldest == c {
		return r.used-c.bytes+n <= r.limit
	}
	taken, share := r.shares()
	above := taken[c.caller]-c.bytes+n > share
	reserve := oldest.bytes
	for _, b := range r.bodies {
		if !r.comes(b) {
			continue
		}
		if above && (b.waiting || b.long) && taken[b.caller] < share {
			return false // its caller comes first
		}
		reserve = max(reserve, b.expected)
	}
	return r.used-oldest.bytes-c.bytes+n <= r.limit-reserve
}

// shares is what the bodies of each caller have taken, and what each may take
// before the others.
func (r *room) shares() (taken map[string]int64, share int64) {
	taken = map[string]int64{}
	for _, b := range r.bodies {
		taken[b.caller] += b.bytes
	}
	return taken, r.limit / int64(len(taken))
}

// oldest is the first body that still comes.
func (r *room) oldest() *claim {
	for _, b := range r.bodies {
		if r.comes(b) {
			return b
		}
	}
	return nil
}

// comes reports whether a body is not whole yet, and has not stalled.
func (r *room) comes(b *claim) bool { return !b.whole && !r.stalled(b) }

// stalled reports whether it is the sender's fault that nothing comes.
func (r *room) stalled(b *claim) bool {
	return !b.whole && !b.waiting && r.now()-b.last >= r.stall
}

// victim is the body that gives way to c, which wants to be of n bytes; nil for
// none.
func (r *room) victim(c *claim, n int64) *claim {
	var found *claim
	for _, b := range r.bodies {
		if b != c && r.stalled(b) && (found == nil || b.bytes > found.bytes) {
			found = b
		}
	}
	if found != nil || !c.long {
		return found
	}
	taken, share := r.shares()
	if taken[c.caller]-c.bytes+n > share {
		return nil
	}
	for _, b := range r.bodies {
		if !b.whole && b.bytes > 0 && taken[b.caller] > share && (found == nil || b.last < found.last) {
			found = b
		}
	}
	return found
}

// remove takes the claim out. The caller has the lock.
func (r *room) remove(c *claim) {
	if i := slices.Index(r.bodies, c); i >= 0 {
		r.bodies = slices.Delete(r.bodies, i, i+1)
	}
	if !slices.ContainsFunc(r.bodies, func(b *claim) bool { return b.caller == c.caller }) {
		delete(r.granted, c.caller)
	}
	r.used -= c.bytes
	c.bytes = 0
}

// wake lets those try again who wait. The caller has the lock.
func (r *room) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *room) now() time.Duration { return time.Since(r.began) }

func (r *room) gaveWay() error {
	return fmt.Errorf("%w: the body gave way to others, as too little of it came or its sender's bodies took more than their share of %d bytes",
		bytestore.ErrOverloaded, r.limit)
}
