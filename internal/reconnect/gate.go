// Package reconnect limits how a process connects to a server that may be out of reach or slow.
//
// A connection costs a server more than most requests do. Clients that open all their connections
// at once after an outage can keep a server with little processor time from completing any of them
// within its deadline, and the attempts that follow can keep it so for ever.
package reconnect

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// firstPause is the pause before the attempt that follows a failed one. It doubles with each
	// failure up to longestPause, and half of it is random, so that processes do not connect in
	// step.
	firstPause   = 20 * time.Millisecond
	longestPause = time.Second
	// longest bounds the time that Timeout allows for an attempt.
	longest = 40 * time.Second
)

// Gate admits attempts to connect to one server. Its methods may be called concurrently.
type Gate struct {
	atOnce   int64
	places   *semaphore.Weighted
	failures atomic.Int64 // attempts that failed since the last one that succeeded; a lost connection counts as one
	late     atomic.Int64 // of these, the ones that ended at their deadline
}

// New returns a gate that admits up to atOnce attempts at once while the server answers, and one at
// a time after an attempt has failed, until one succeeds.
func New(atOnce int) *Gate {
	return &Gate{atOnce: int64(atOnce), places: semaphore.NewWeighted(int64(atOnce))}
}

// Attempt is an attempt that Enter has admitted.
type Attempt struct {
	gate   *Gate
	places int64
}

// Enter waits until an attempt may begin. Unless it returns ctx's error, the caller must call End
// once.
func (g *Gate) Enter(ctx context.Context) (Attempt, error) {
	places := int64(1)
	if g.failures.Load() > 0 {
		places = g.atOnce
	}
	if err := g.places.Acquire(ctx, places); err != nil {
		return Attempt{}, err
	}
	failures := g.failures.Load()
	if failures == 0 {
		return Attempt{g, places}, nil
	}
	half := min(firstPause<<min(failures-1, 10), longestPause) / 2
	timer := time.NewTimer(half + rand.N(half))
	defer timer.Stop()
	select {
	case <-timer.C:
		return Attempt{g, places}, nil
	case <-ctx.Done():
		g.places.Release(places)
		return Attempt{}, ctx.Err()
	}
}

// Timeout returns how long an attempt may take that is usually given d: twice as long after each
// one that ended at its deadline, up to 40 seconds or d. A server that is merely slow then
// completes one.
func (g *Gate) Timeout(d time.Duration) time.Duration {
	return min(d<<min(g.late.Load(), 10), max(longest, d))
}

// End ends the attempt with its error, or nil if the server can be used. An attempt that its caller
// has given up ends with context.Canceled, which shows nothing about the server.
func (a Attempt) End(err error) {
	switch {
	case err == nil:
		a.gate.failures.Store(0)
		a.gate.late.Store(0)
	case !errors.Is(err, context.Canceled):
		a.gate.failures.Add(1)
		if errors.Is(err, context.DeadlineExceeded) {
			a.gate.late.Add(1)
		}
	}
	a.gate.places.Release(a.places)
}

// Lost records that a connection was lost, so that the server may be out of reach.
func (g *Gate) Lost() { g.failures.CompareAndSwap(0, 1) }
