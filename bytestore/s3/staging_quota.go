package s3

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"sluice/bytestore"
)

// stagingQuota divides the bytes that staged bodies may occupy together. A body reserves bytes as
// it is received, and waits if there are none. It guarantees:
//
//   - The oldest body that is still being received can be received completely: the other bodies
//     leave as much free as the largest of them needs. One body is therefore always completed and
//     sent, and bodies being received never wait for each other in a cycle.
//   - A body is evicted if nothing is received of it for a while and other bodies need its bytes:
//     its reservation is dropped, and receiving more of it fails.
//   - All active callers have equal shares. A caller within its share has priority over callers
//     that exceed theirs. If it still has to wait for long, bodies of those callers are evicted,
//     beginning with the one that has received nothing for the longest time.
type stagingQuota struct {
	limit int64
	stall time.Duration // time without a byte after which a body has stalled
	wait  time.Duration // greatest time to wait for bytes
	began time.Time

	mu      sync.Mutex
	used    int64
	bodies  []*reservation           // oldest first
	granted map[string]time.Duration // when bytes were last granted to each caller
	changed chan struct{}            // closed when a waiting body should try again
}

// reservation is the reservation of one body. The quota's lock guards all but the first group of
// fields.
type reservation struct {
	caller string
	free   func() // drops the body's bytes; called from any goroutine

	expected int64         // the whole body's size
	bytes    int64         // reserved
	last     time.Duration // when a byte was last received, since began
	waiting  bool          // for bytes
	starved  bool          // it has waited for three times stall while its caller was granted nothing
	complete bool          // it was received completely and is being sent
	evicted  bool
}

// unknownBody is a body's expected size if its size is unknown: as much as an object store's
// largest extents. It is a guess that affects only the order in which bodies wait.
const unknownBody = 16 << 20

func newStagingQuota(limit int64, stall, wait time.Duration) *stagingQuota {
	return &stagingQuota{limit: limit, stall: stall, wait: wait, began: time.Now(), granted: map[string]time.Duration{}, changed: make(chan struct{})}
}

// admit adds a body with an empty reservation. size may be bytestore.UnknownSize. free is called at
// most once, when the body is evicted. The caller must release the reservation.
func (q *stagingQuota) admit(ctx context.Context, size int64, free func()) *reservation {
	if size == bytestore.UnknownSize {
		size = min(unknownBody, q.limit/4)
	}
	c := &reservation{caller: bytestore.Caller(ctx), free: free, expected: size}
	q.mu.Lock()
	defer q.mu.Unlock()
	c.last = q.now()
	q.bodies = append(q.bodies, c)
	return c
}

func (q *stagingQuota) release(c *reservation) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.remove(c)
	q.wake()
}

// progress records that the body's bytes were received.
func (q *stagingQuota) progress(c *reservation) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c.last = q.now()
}

// complete marks the body as completely received: it is no longer evicted, and does not delay those
// after it. It returns an error if the body was evicted.
func (q *stagingQuota) complete(c *reservation) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.evicted {
		return q.errEvicted()
	}
	c.complete = true
	q.wake()
	return nil
}

// grow waits until the reservation can be extended to n bytes. It returns bytestore.ErrOverloaded
// if that takes longer than the wait, if n exceeds the limit, or if the body was evicted.
func (q *stagingQuota) grow(ctx context.Context, c *reservation, n int64) error {
	begun := time.Now()
	for {
		changed, done, err := q.tryGrow(c, n, time.Since(begun))
		if done || err != nil {
			return err
		}
		// That a body has stalled is not signalled.
		again := time.NewTimer(min(q.stall, q.wait)/4 + time.Millisecond)
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

// tryGrow extends the reservation to n bytes if possible. Otherwise changed is closed when it
// should be called again.
func (q *stagingQuota) tryGrow(c *reservation, n int64, waited time.Duration) (changed <-chan struct{}, done bool, err error) {
	var gone []*reservation
	defer func() {
		for _, v := range gone {
			v.free()
		}
	}()
	q.mu.Lock()
	defer q.mu.Unlock()
	c.expected = max(c.expected, n)
	c.starved = c.starved || min(waited, q.now()-q.granted[c.caller]) >= 3*q.stall
	for !c.evicted && !q.fits(c, n) {
		v := q.victim(c, n)
		if v == nil {
			break
		}
		v.evicted = true
		q.remove(v)
		q.wake()
		gone = append(gone, v)
	}
	c.waiting, c.last = false, q.now()
	switch {
	case c.evicted:
		return nil, false, q.errEvicted()
	case q.fits(c, n):
		q.used += n - c.bytes
		c.bytes = n
		q.granted[c.caller] = q.now()
		return nil, true, nil
	case n > q.limit, waited >= q.wait:
		return nil, false, fmt.Errorf("%w: bodies of %d bytes are staged already, and at most %d may be",
			bytestore.ErrOverloaded, q.used, q.limit)
	}
	c.waiting = true
	return q.changed, false, nil
}

// fits reports whether the reservation can be extended to n bytes.
func (q *stagingQuota) fits(c *reservation, n int64) bool {
	oldest := q.oldest()
	if oldest == nil || oldest == c {
		return q.used-c.bytes+n <= q.limit
	}
	taken, share := q.shares()
	above := taken[c.caller]-c.bytes+n > share
	reserve := oldest.bytes
	for _, b := range q.bodies {
		if !q.receiving(b) {
			continue
		}
		if above && (b.waiting || b.starved) && taken[b.caller] < share {
			return false // the caller of b has priority
		}
		reserve = max(reserve, b.expected)
	}
	return q.used-oldest.bytes-c.bytes+n <= q.limit-reserve
}

// shares returns the bytes reserved by the bodies of each caller, and the share of each caller.
func (q *stagingQuota) shares() (taken map[string]int64, share int64) {
	taken = map[string]int64{}
	for _, b := range q.bodies {
		taken[b.caller] += b.bytes
	}
	return taken, q.limit / int64(len(taken))
}

// oldest returns the oldest body that is still being received, or nil.
func (q *stagingQuota) oldest() *reservation {
	for _, b := range q.bodies {
		if q.receiving(b) {
			return b
		}
	}
	return nil
}

// receiving reports whether a body is incomplete and has not stalled.
func (q *stagingQuota) receiving(b *reservation) bool { return !b.complete && !q.stalled(b) }

// stalled reports whether a body's sender has not sent anything for too long.
func (q *stagingQuota) stalled(b *reservation) bool {
	return !b.complete && !b.waiting && q.now()-b.last >= q.stall
}

// victim returns the body to be evicted so that c can be extended to n bytes, or nil.
func (q *stagingQuota) victim(c *reservation, n int64) *reservation {
	var found *reservation
	for _, b := range q.bodies {
		if b != c && q.stalled(b) && (found == nil || b.bytes > found.bytes) {
			found = b
		}
	}
	if found != nil || !c.starved {
		return found
	}
	taken, share := q.shares()
	if taken[c.caller]-c.bytes+n > share {
		return nil
	}
	for _, b := range q.bodies {
		if !b.complete && b.bytes > 0 && taken[b.caller] > share && (found == nil || b.last < found.last) {
			found = b
		}
	}
	return found
}

// remove removes the reservation. The caller must hold the lock.
func (q *stagingQuota) remove(c *reservation) {
	if i := slices.Index(q.bodies, c); i >= 0 {
		q.bodies = slices.Delete(q.bodies, i, i+1)
	}
	if !slices.ContainsFunc(q.bodies, func(b *reservation) bool { return b.caller == c.caller }) {
		delete(q.granted, c.caller)
	}
	q.used -= c.bytes
	c.bytes = 0
}

// wake makes waiting bodies try again. The caller must hold the lock.
func (q *stagingQuota) wake() {
	close(q.changed)
	q.changed = make(chan struct{})
}

func (q *stagingQuota) now() time.Duration { return time.Since(q.began) }

func (q *stagingQuota) errEvicted() error {
	return fmt.Errorf("%w: the body was evicted for other bodies, because too little of it was received or its sender's bodies exceeded their share of %d bytes",
		bytestore.ErrOverloaded, q.limit)
}
