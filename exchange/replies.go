package exchange

import (
	"cmp"
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"

	"sluice/access"
)

// The bounds on memory for replies. A reply that is made for its request, such as a page, is in
// memory until its client has read it. What is shared by requests does not count, nor what is not
// larger than a connection's buffers.
const (
	// repliesMemory is what all of a node's replies may have together, in bytes. Those to callers
	// without a key may have three quarters of it.
	repliesMemory = 64 << 20
	// CallerReplies is what the replies to one caller may have, unless it may make any number of
	// concurrent requests.
	CallerReplies = repliesMemory / 4
	// smallReply is the size up to which a reply is not counted: the limits on connections and
	// concurrent requests bound how many there are.
	smallReply = 4 << 10
	// repliesWait is how long a request waits for memory.
	repliesWait = 2 * time.Second
)

// Errors of replies for which there is no memory.
var (
	// errRepliesOfCaller reports that the caller's unread replies have all that it may have.
	errRepliesOfCaller = fmt.Errorf("%w: too many bytes of responses wait for the client", access.ErrConcurrent)
	// errRepliesOfNode reports that unread replies of all callers have all that there is.
	errRepliesOfNode = fmt.Errorf("%w: too many bytes of responses wait for their clients", ErrTooBusy)
)

// replies counts the memory of replies. It is safe for concurrent use.
type replies struct {
	most, callerMost int64
	maxWaiting       int

	mu        sync.Mutex
	used      int64
	anonymous int64                       // of used, of callers without a key
	callers   map[*access.Allowance]int64 // of used
	waiting   list.List                   // of *waiter, the first to come first
}

// reply is the memory of one reply.
type reply struct {
	of        *replies
	caller    *access.Allowance
	anonymous bool
	unbounded bool // the caller may have everything
	size      int64
}

// waiter is a reply that waits for memory.
type waiter struct {
	*reply
	admitted chan struct{} // closed when it has the memory
}

// newReplies returns the bounds for a node that serves maxRequests concurrent requests. A part of
// them may wait for memory, so that the others can be served.
func newReplies(maxRequests int64) *replies {
	return &replies{most: repliesMemory, callerMost: CallerReplies, maxWaiting: int(max(1, maxRequests/8)), callers: map[*access.Allowance]int64{}}
}

// held returns the bytes that are counted.
func (s *replies) held() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// acquire waits until r.size bytes are free. It returns an error that is access.ErrConcurrent if
// the caller has too much, ErrTooBusy if all have, or the error of ctx.
func (s *replies) acquire(ctx context.Context, r *reply) error {
	s.mu.Lock()
	if s.obstacle(r) == nil {
		s.add(r, r.size)
		s.mu.Unlock()
		return nil
	}
	if s.waiting.Len() >= s.maxWaiting {
		defer s.mu.Unlock()
		return s.obstacle(r)
	}
	w := &waiter{r, make(chan struct{})}
	place := s.waiting.PushBack(w)
	s.mu.Unlock()

	timer := time.NewTimer(repliesWait)
	defer timer.Stop()
	select {
	case <-w.admitted:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-w.admitted: // meanwhile
		return nil
	default:
	}
	s.waiting.Remove(place)
	if err := cmp.Or(ctx.Err(), s.obstacle(r)); err != nil {
		return err
	}
	s.add(r, r.size)
	return nil
}

// obstacle returns why r cannot have its memory now, or nil. The caller must hold the lock.
func (s *replies) obstacle(r *reply) error {
	switch {
	case !r.unbounded && s.callers[r.caller] > 0 && s.callers[r.caller]+r.size > s.callerMost:
		return errRepliesOfCaller
	case s.used > 0 && s.used+r.size > s.most, r.anonymous && s.anonymous > 0 && s.anonymous+r.size > s.most/4*3:
		return errRepliesOfNode
	}
	return nil
}

// add counts n more bytes of r. The caller must hold the lock.
func (s *replies) add(r *reply, n int64) {
	s.used += n
	if r.anonymous {
		s.anonymous += n
	}
	if s.callers[r.caller] += n; s.callers[r.caller] == 0 {
		delete(s.callers, r.caller)
	}
}

// resize counts size bytes of r from now on. More than before never waits, because they are in
// memory already.
func (s *replies) resize(r *reply, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(r, size-r.size)
	r.size = size
	// A reply does not hold up the ones behind it if its caller has too much, or has no key.
	for at := s.waiting.Front(); at != nil; {
		w, next := at.Value.(*waiter), at.Next()
		if s.obstacle(w.reply) == nil {
			s.add(w.reply, w.size)
			s.waiting.Remove(at)
			close(w.admitted)
		}
		at = next
	}
}
