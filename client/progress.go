package client

import "sync/atomic"

// progress calls a callback with the number of bytes that were transferred. Calls do not overlap,
// no lock is held during a call, and a slow callback delays no transfer. A nil progress does
// nothing.
type progress struct {
	report func(done, total int64)
	total  atomic.Int64
	done   atomic.Int64
	begun  bool
	wake   chan struct{} // has room for one signal
	ended  chan struct{}
}

// newProgress returns a progress with the total number of bytes, or -1 if it is not known. It
// reports nothing until it begins. It must be ended, unless report is nil.
func newProgress(report func(done, total int64), total int64) *progress {
	if report == nil {
		return nil
	}
	p := &progress{report: report, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	p.total.Store(total)
	return p
}

// startProgress returns a progress that begins without bytes.
func startProgress(report func(done, total int64), total int64) *progress {
	p := newProgress(report, total)
	p.begin(0)
	return p
}

// begin causes the first call, which reports only an earlier transfer's bytes. It is called once,
// before any bytes are counted.
func (p *progress) begin(left int64) {
	if p == nil {
		return
	}
	p.begun = true
	p.done.Store(left)
	go func() {
		defer close(p.ended)
		p.report(left, p.total.Load())
		for range p.wake {
			p.report(p.done.Load(), p.total.Load())
		}
	}()
}

// add counts n bytes. n is negative if bytes must be transferred again.
func (p *progress) add(n int64) {
	if p == nil || n == 0 {
		return
	}
	p.done.Add(n)
	p.signal()
}

// signal causes a call.
func (p *progress) signal() {
	select {
	case p.wake <- struct{}{}:
	default: // the next call reports this too
	}
}

// setTotal sets the total number of bytes when it becomes known.
func (p *progress) setTotal(n int64) {
	if p != nil {
		p.total.Store(n)
		p.signal()
	}
}

// restart sets the number of bytes to 0. No bytes may be counted during the call.
func (p *progress) restart() {
	if p != nil {
		p.add(-p.done.Load())
	}
}

// end returns after the last call, which reports all bytes. No bytes may be counted any more.
func (p *progress) end() {
	if p == nil || !p.begun {
		return
	}
	close(p.wake)
	<-p.ended
}
