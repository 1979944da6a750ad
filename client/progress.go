package client

import (
	"io"
	"sync"
	"sync/atomic"

	"sluice/checksum"
)

// progress calls a callback with the number of bytes that were transferred. Calls do not overlap, no
// lock is held during a call, and a slow callback delays no transfer. A nil progress does nothing.
type progress struct {
	report func(done, total int64)
	total  atomic.Int64
	done   atomic.Int64
	wake   chan struct{} // has room for one signal
	ended  chan struct{}
}

// startProgress returns a progress with the total number of bytes, or -1 if it is not known. It must
// be ended, unless report is nil.
func startProgress(report func(done, total int64), total int64) *progress {
	if report == nil {
		return nil
	}
	p := &progress{report: report, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	p.total.Store(total)
	p.wake <- struct{}{} // the first call reports that nothing is done yet
	go func() {
		defer close(p.ended)
		for range p.wake {
			p.report(p.done.Load(), p.total.Load())
		}
	}()
	return p
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
	if p == nil {
		return
	}
	close(p.wake)
	<-p.ended
}

// sentBody is the body of one attempt to send bytes. It counts them until it is stopped.
type sentBody struct {
	io.Reader
	progress *progress
	summed   bool // requests the CRC
	closed   chan struct{}
	close    sync.Once

	mu      sync.Mutex
	sent    int64
	crc     uint64
	stopped bool
}

func newSentBody(r io.Reader, p *progress) *sentBody {
	return &sentBody{Reader: r, progress: p, closed: make(chan struct{})}
}

func (b *sentBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.stopped {
		b.sent += int64(n)
		if b.summed {
			b.crc = checksum.Update(b.crc, p[:n])
		}
		b.progress.add(int64(n))
	}
	return n, err
}

// Close is called by net/http when it does not read the body any more.
func (b *sentBody) Close() error {
	b.close.Do(func() { close(b.closed) })
	return nil
}

// stop ends the counting, and returns the CRC of the bytes if it was requested. If the attempt failed,
// its bytes are subtracted.
func (b *sentBody) stop(failed bool) (crc uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if failed && !b.stopped {
		b.progress.add(-b.sent)
	}
	b.stopped = true
	return b.crc
}
