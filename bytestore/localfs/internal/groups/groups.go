// Package groups lets concurrent callers share an operation, such as an fsync (group commit).
package groups

import "sync"

// Group collects the callers that share the next operation. Its methods may be called concurrently.
// The zero value is valid.
type Group[T any] struct {
	mu   sync.Mutex
	next *batch[T] // that has not begun; nil if nobody waits for it
	last *batch[T] // the latest that was made; nil before the first
}

// batch is one operation and its callers. The first of them carries it out.
type batch[T any] struct {
	before *batch[T] // must end before this one begins; nil: none
	items  []T
	done   chan struct{} // closed once err is set
	err    error
}

// Do calls run with the items of all callers that wait, or waits until another caller does, and
// returns run's error. Calls of run follow each other. A caller never joins the running one, which
// may have begun before the caller's part was done.
func (g *Group[T]) Do(item T, run func(items []T) error) error {
	b, leads := g.join(item)
	if leads {
		if b.before != nil {
			<-b.before.done
		}
		g.begin(b)
		b.err = run(b.items)
		close(b.done)
	}
	<-b.done
	return b.err
}

// join adds an item to the next batch. It reports whether the caller must carry it out.
func (g *Group[T]) join(item T) (b *batch[T], leads bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.next == nil {
		g.next = &batch[T]{before: g.last, done: make(chan struct{})}
		g.last = g.next
		leads = true
	}
	g.next.items = append(g.next.items, item)
	return g.next, leads
}

// begin closes the batch: later callers join the next one.
func (g *Group[T]) begin(b *batch[T]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next = nil
	b.before = nil // otherwise all batches would remain reachable
}
