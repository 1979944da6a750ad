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
// memory until its client has read it. Shared and small replies do not count.
const (
	// repliesMemory is the memory that a node's replies may use together, in bytes. Replies to
	// callers without a key may use three quarters of it.
	repliesMemory = 64 << 20
	// CallerReplies is the memory that the replies to one caller may use, unless it may make any
	// number of concurrent requests.
	CallerReplies = repliesMemory / 4
	// smallReply is the size up to which a reply is not counted: the limits on connections and
	// concurrent requests bound how many there are.
	smallReply = 4 << 10
	// repliesWait is how long a request waits for memory.
	repliesWait = 2 * time.Second
	// documentsMemory bounds the bytes that all documents in requests have together; a caller may
	// have a quarter. It is apart from the memory of replies, because a document arrives as slowly
	// as its client sends it.
	documentsMemory = 64 << 20
)

// Errors of replies for which there is no memory.
var (
	// errRepliesOfCaller reports that the caller's unread replies have all that it may have.
	errRepliesOfCaller = fmt.Errorf("%w: too many bytes of responses wait for the client", access.ErrConcurrent)
	// errRepliesOfNode reports that unread replies of all callers have all that there is.
	errRepliesOfNode = fmt.Errorf("%w: too many bytes of responses wait for their clients", ErrTooBusy)
	// errDocumentsOfCaller and errDocumentsOfNode report the same about documents in requests.
	errDocumentsOfCaller = fmt.Errorf("%w: the documents that the client is sending are too large together", access.ErrConcurrent)
	errDocumentsOfNode   = fmt.Errorf("%w: the documents that clients are sending are too large together", ErrTooBusy)
)

// replies counts the memory of replies, or of documents. It is safe for concurrent use.
type replies struct {
	most, callerMost int64
	ofCaller, ofNode error // that a caller, or all together, have too much
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
// them may wait for memory, so that the rest can be served.
func newReplies(maxRequests int64) *replies {
	return &replies{
		most: repliesMemory, callerMost: CallerReplies, ofCaller: errRepliesOfCaller, ofNode: errRepliesOfNode,
		maxWaiting: int(max(1, maxRequests/8)), callers: map[*access.Allowance]int64{},
	}
}

// newDocuments returns the bounds for documents in requests.
func newDocuments() *replies {
	return &replies{
		most: documentsMemory, callerMost: documentsMemory / 4, ofCaller: errDocumentsOfCaller, ofNode: errDocumentsOfNode,
		callers: map[*access.Allowance]int64{},
	}
}

// held returns the bytes that are counted.
func (s *replies) held() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// acquire waits until r.size bytes are free. It returns an error that is access.ErrConcurrent if
// the caller has too much, at once if a caller never may have as much; ErrTooBusy if all have too
// much; or the error of ctx.
func (s *replies) acquire(ctx context.Context, r *reply) error {
	s.mu.Lock()
	obstacle := s.obstacle(r, r.size)
	if obstacle == nil {
		s.add(r, r.size)
	}
	if obstacle == nil || s.waiting.Len() >= s.maxWaiting || !r.unbounded && r.size > s.callerMost {
		s.mu.Unlock()
		return obstacle
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
	if err := cmp.Or(ctx.Err(), s.obstacle(r, r.size)); err != nil {
		return err
	}
	s.add(r, r.size)
	return nil
}

// grow counts size bytes of r from now on, or returns an error like acquire's, without waiting.
func (s *replies) grow(r *reply, size int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.obstacle(r, size-r.size); err != nil {
		return err
	}
	s.add(r, size-r.size)
	r.size = size
	return nil
}

// obstacle returns why r cannot have n more bytes now, or nil. The caller must hold the lock.
func (s *replies) obstacle(r *reply, n int64) error {
	switch {
	case !r.unbounded && s.callers[r.caller]+n > s.callerMost:
		return s.ofCaller
	case s.used > 0 && s.used+n > s.most, r.anonymous && s.anonymous > 0 && s.anonymous+n > s.most/4*3:
		return s.ofNode
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
		if s.obstacle(w.reply, w.size) == nil {
			s.add(w.reply, w.size)
			s.waiting.Remove(at)
			close(w.admitted)
		}
		at = next
	}
}
