// Package feed lets many readers wait for changes at the cost of one. While somebody waits, a Hub
// reads the record of changes at short intervals, keeps the latest changes in memory, and wakes its
// readers. A reader that is behind these reads the record itself.
package feed

import (
	"context"
	"errors"
	"sync"
	"time"

	"sluice/database"
	"sluice/internal/task"
	"sluice/metastore"
)

// Errors of readers.
var (
	// ErrOwner means that the owner has as many readers as one may have.
	ErrOwner = errors.New("too many requests of this caller wait for changes")
	// ErrFull means that the hub has as many readers as it may have.
	ErrFull = errors.New("too many requests wait for changes")
	// ErrClosed means that the hub was closed.
	ErrClosed = errors.New("nobody waits for changes any longer")
)

// Options are a Hub's settings. The zero value is valid.
type Options struct {
	// Poll is the time between two looks at the record while somebody waits. Default 50 ms.
	Poll time.Duration
	// Bytes bounds the changes in memory. Default 8 MiB.
	Bytes int64
	// Readers is the greatest number of readers, and OwnerReaders the same for one owner. Default
	// 4096 and 1024.
	Readers, OwnerReaders int
	// Failed is called when the record cannot be read, once until it can be again. nil means that
	// nothing is called.
	Failed func(error)
}

const (
	// pageBytes and pageChanges bound a page that the hub reads.
	pageBytes, pageChanges = 512 << 10, 1000
	// patience is how long the hub waits for the database.
	patience = 10 * time.Second
	// failurePause is how long the hub waits after a failure.
	failurePause = time.Second
)

// Hub reads changes for its readers. Its methods may be called concurrently.
type Hub struct {
	source metastore.Changes
	opt    Options
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	polls  sync.WaitGroup

	mu      sync.Mutex
	owners  map[string]int // readers
	polling bool
	ring    ring
	turn    int           // counts the rings that began anew
	moved   chan struct{} // closed when the ring has changed
	stats   Stats
}

// Stats count a Hub's readers and pages.
type Stats struct {
	Readers            int   // now
	Refused            int64 // readers
	Memory, Database   int64 // pages for readers, by where their changes were read
	Gone               int64 // reads of changes that are not known
	Polls, FailedPolls int64
}

// New returns a Hub for a record of changes. The caller must close it.
func New(source metastore.Changes, opt Options) *Hub {
	if opt.Poll == 0 {
		opt.Poll = 50 * time.Millisecond
	}
	if opt.Bytes == 0 {
		opt.Bytes = 8 << 20
	}
	if opt.Readers == 0 {
		opt.Readers = 4096
	}
	if opt.OwnerReaders == 0 {
		opt.OwnerReaders = 1024
	}
	h := &Hub{source: source, opt: opt, owners: map[string]int{}, moved: make(chan struct{})}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// Close ends all waits with ErrClosed. It returns when the hub no longer uses the database.
func (h *Hub) Close() {
	h.mu.Lock()
	h.cancel()
	h.mu.Unlock()
	h.polls.Wait()
}

// Closed is closed when the hub is.
func (h *Hub) Closed() <-chan struct{} { return h.ctx.Done() }

// Stats returns the counts.
func (h *Hub) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stats
}

// Read returns a page that has all changes that were acknowledged before the call, as ListChanges.
func (h *Hub) Read(ctx context.Context, q metastore.ChangeQuery) (metastore.ChangePage, error) {
	page, err := h.source.ListChanges(ctx, q)
	var gone *metastore.ChangesGoneError
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case errors.As(err, &gone):
		h.stats.Gone++
	case err == nil:
		h.stats.Database++
	}
	return page, err
}

// Start returns the position before the oldest known change of an account, or of all accounts.
func (h *Hub) Start(ctx context.Context, account string, all bool) (metastore.FeedPosition, error) {
	return h.source.FeedStart(ctx, account, all)
}

// End returns the position behind all changes that were acknowledged before the call.
func (h *Hub) End(ctx context.Context) (metastore.FeedPosition, error) { return h.source.FeedEnd(ctx) }

// Reader reads changes in order. It is not safe for concurrent use.
type Reader struct {
	hub   *Hub
	owner string
	query metastore.ChangeQuery // After is the reader's position
	turn  int                   // the hub's in which the database has confirmed the position; 0: none
}

// Enter returns a reader that continues at q.After, and counts it for its owner, such as a group of
// keys. The caller must call Leave. It returns ErrOwner or ErrFull if there are too many, and
// ErrClosed.
func (h *Hub) Enter(owner string, q metastore.ChangeQuery) (*Reader, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var err error
	switch {
	case h.ctx.Err() != nil:
		return nil, ErrClosed
	case h.stats.Readers >= h.opt.Readers:
		err = ErrFull
	case h.owners[owner] >= h.opt.OwnerReaders:
		err = ErrOwner
	}
	if err != nil {
		h.stats.Refused++
		return nil, err
	}
	h.owners[owner]++
	if h.stats.Readers++; !h.polling {
		h.polling = true
		h.polls.Go(h.poll)
	}
	return &Reader{hub: h, owner: owner, query: q}, nil
}

// Leave ends the reader.
func (r *Reader) Leave() {
	h := r.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stats.Readers--
	if h.owners[r.owner]--; h.owners[r.owner] == 0 {
		delete(h.owners, r.owner)
	}
}

// At returns the reader's position: behind all changes that Next has returned or passed over.
func (r *Reader) At() metastore.FeedPosition { return r.query.After }

// Next returns the next page, and moves the reader behind it. If there is no change, it waits for
// one, up to a time, and then returns a page without changes. It may return such a page earlier if
// there is More. It returns a metastore.ChangesGoneError, or an error from the database or ctx.
// With a time to wait it returns ErrClosed once the hub is closed, even if there are changes: a
// reader that is far behind must not hold up the end.
func (r *Reader) Next(ctx context.Context, wait time.Duration) (metastore.ChangePage, error) {
	var over <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		over = timer.C
	}
	for {
		if wait > 0 && r.hub.ctx.Err() != nil {
			return metastore.ChangePage{Next: r.query.After}, ErrClosed
		}
		page, moved, err := r.look(ctx)
		if err != nil || len(page.Changes) > 0 || page.More || wait <= 0 {
			return page, err
		}
		select {
		case <-moved:
		case <-over:
			return page, nil
		case <-ctx.Done():
			return page, ctx.Err()
		case <-r.hub.ctx.Done():
			return page, ErrClosed
		}
	}
}

// look returns the next page, which may be empty, and the channel that is closed when there may be
// more.
func (r *Reader) look(ctx context.Context) (page metastore.ChangePage, moved <-chan struct{}, err error) {
	h := r.hub
	h.mu.Lock()
	ring, turn, moved := h.ring, h.turn, h.moved // before the changes are read, so that none is missed
	h.mu.Unlock()
	at := r.query.After
	switch {
	case ring.has(at):
		if page = ring.page(&r.query); len(page.Changes) > 0 {
			h.mu.Lock()
			h.stats.Memory++
			h.mu.Unlock()
		}
	case r.turn == turn && turn > 0 && at.Generation == ring.end.Generation && at.Number > ring.end.Number:
		return metastore.ChangePage{Next: at}, moved, nil // the hub is not there yet
	default:
		if page, err = h.Read(ctx, r.query); err != nil {
			return metastore.ChangePage{Next: at}, moved, err
		}
		r.turn = turn
	}
	r.query.After = page.Next
	return page, moved, nil
}

// poll reads changes while there are readers.
func (h *Hub) poll() {
	failing := false
	for h.wanted() {
		more, err := h.step()
		pause := h.opt.Poll
		switch {
		case err != nil && h.ctx.Err() == nil:
			if pause = failurePause; !failing && h.opt.Failed != nil {
				h.opt.Failed(err)
			}
		case more:
			pause = 0
		}
		failing = err != nil
		_ = task.Wait(h.ctx, pause) // wanted sees that it has ended
	}
}

// wanted reports whether there are readers. If there are none, it ends the polls.
func (h *Hub) wanted() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stats.Readers > 0 && h.ctx.Err() == nil {
		return true
	}
	h.polling, h.ring = false, ring{}
	return false
}

// step reads the changes behind the ring's end, and reports whether there are more.
func (h *Hub) step() (more bool, err error) {
	ctx, cancel := context.WithTimeout(database.WithPatience(h.ctx, patience), patience)
	defer cancel()
	h.mu.Lock()
	at := h.ring.end
	h.stats.Polls++
	h.mu.Unlock()
	if at == (metastore.FeedPosition{}) {
		at, err = h.source.FeedEnd(ctx)
		return false, h.advance(err, func() { h.begin(at) })
	}
	page, err := h.source.ListChanges(ctx, metastore.ChangeQuery{After: at, All: true, Limit: pageChanges, Bytes: pageBytes})
	var gone *metastore.ChangesGoneError
	if errors.As(err, &gone) {
		return false, h.advance(nil, func() { h.begin(gone.Restart) })
	}
	if err == nil && page.Next == at {
		return false, nil
	}
	return page.More, h.advance(err, func() { h.ring.add(page, h.opt.Bytes) })
}

// begin begins the ring at a position. Readers elsewhere must read the database.
func (h *Hub) begin(at metastore.FeedPosition) {
	h.turn++
	h.ring = ring{from: at, end: at}
}

// advance changes the ring and wakes the readers, or counts a failure.
func (h *Hub) advance(err error, change func()) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.stats.FailedPolls++
		return err
	}
	change()
	close(h.moved)
	h.moved = make(chan struct{})
	return nil
}
