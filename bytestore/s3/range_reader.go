package s3

import (
	"context"
	"errors"
	"io"
	"sync"
)

const (
	// requestSize is the number of bytes that one request reads.
	requestSize = 4 << 20
	// maxPrefetches is the number of requests ahead of one reader.
	maxPrefetches = 3
)

var requestBuffers = sync.Pool{New: func() any { return new([requestSize]byte) }}

// reader reads a range. The first request, and each one for which there is no memory, is read from
// the connection as it arrives; the rest are prefetched. It must be used by one goroutine at a
// time.
type reader struct {
	s      *Store
	ctx    context.Context
	cancel context.CancelFunc
	pos    int64 // where the next byte is read
	next   int64 // where the next request begins
	end    int64

	live  *stream
	ahead []*prefetch // in order; the first begins where live ends
}

// prefetch is a section that is read ahead.
type prefetch struct {
	pos, end int64
	buf      *[requestSize]byte
	done     chan struct{} // closed once buf is filled or err is set
	err      error
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	switch {
	case r.pos == r.end:
		return 0, io.EOF
	case r.pos < r.live.end:
		return r.readLive(p)
	case len(r.ahead) > 0:
		return r.readAhead(p)
	}
	r.next = min(r.end, r.pos+requestSize)
	r.live = r.stream(r.pos, r.next)
	r.fetchAhead()
	return r.readLive(p)
}

func (r *reader) readLive(p []byte) (int, error) {
	n, err := r.live.Read(p)
	r.pos += int64(n)
	return n, err
}

// readAhead reads from the first prefetch.
func (r *reader) readAhead(p []byte) (int, error) {
	first := r.ahead[0]
	<-first.done
	if first.err != nil {
		return 0, first.err
	}
	n := copy(p, first.buf[r.pos-first.pos:first.end-first.pos])
	r.pos += int64(n)
	if r.pos == first.end {
		r.ahead = r.ahead[1:]
		r.free(first)
		r.fetchAhead()
	}
	return n, nil
}

// fetchAhead begins further prefetches, while there is memory.
func (r *reader) fetchAhead() {
	for r.next < r.end && len(r.ahead) < maxPrefetches && r.s.readAhead.tryAcquire(requestSize) {
		p := &prefetch{pos: r.next, end: min(r.end, r.next+requestSize), done: make(chan struct{})}
		p.buf = requestBuffers.Get().(*[requestSize]byte)
		r.next = p.end
		r.ahead = append(r.ahead, p)
		from := r.stream(p.pos, p.end)
		go func() {
			defer close(p.done)
			_, err := io.ReadFull(from, p.buf[:p.end-p.pos])
			p.err = errors.Join(err, from.Close())
		}()
	}
}

// stream returns a stream of the same object's version as the first one.
func (r *reader) stream(pos, end int64) *stream {
	return &stream{s: r.s, ctx: r.ctx, key: r.live.key, etag: r.live.etag, pos: pos, end: end}
}

// free releases a prefetch's buffer after it has ended.
func (r *reader) free(p *prefetch) {
	requestBuffers.Put(p.buf)
	r.s.readAhead.release(requestSize)
}

// Close cancels the requests in progress.
func (r *reader) Close() error {
	r.cancel()
	for _, p := range r.ahead {
		<-p.done
		r.free(p)
	}
	r.ahead = nil
	return r.live.Close()
}
