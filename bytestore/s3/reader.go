package s3

import (
	"context"
	"errors"
	"io"
	"sync"
)

const (
	// pieceSize is how much of a range one request asks for.
	pieceSize = 4 << 20
	// piecesAhead is how many pieces are fetched ahead of one reader.
	piecesAhead = 3
)

var pieceBuffers = sync.Pool{New: func() any { return new([pieceSize]byte) }}

// reader reads a range. Its first piece, and each for which there is no memory,
// is read from the connection as it comes; the others were fetched ahead. It is
// for one goroutine at a time.
type reader struct {
	s      *Store
	ctx    context.Context
	cancel context.CancelFunc
	pos    int64 // of the next byte to be read
	next   int64 // where the next piece to be fetched begins
	end    int64

	live  *stream
	ahead []*piece // in order; the first one begins where live ends
}

// piece is a part of a range that is fetched ahead.
type piece struct {
	pos, end int64
	buf      *[pieceSize]byte
	done     chan struct{} // closed when buf is filled or err set
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
	r.next = min(r.end, r.pos+pieceSize)
	r.live = r.stream(r.pos, r.next)
	r.fetchAhead()
	return r.readLive(p)
}

// readLive reads from the connection.
func (r *reader) readLive(p []byte) (int, error) {
	n, err := r.live.Read(p)
	r.pos += int64(n)
	return n, err
}

// readAhead reads from the first piece that was fetched ahead.
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

// fetchAhead begins to fetch further pieces, while there is memory.
func (r *reader) fetchAhead() {
	for r.next < r.end && len(r.ahead) < piecesAhead && r.s.readAhead.take(pieceSize) {
		p := &piece{pos: r.next, end: min(r.end, r.next+pieceSize), done: make(chan struct{})}
		p.buf = pieceBuffers.Get().(*[pieceSize]byte)
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

// stream is of the same object as the first one.
func (r *reader) stream(pos, end int64) *stream {
	return &stream{s: r.s, ctx: r.ctx, name: r.live.name, etag: r.live.etag, pos: pos, end: end}
}

// free gives back a piece that is done.
func (r *reader) free(p *piece) {
	pieceBuffers.Put(p.buf)
	r.s.readAhead.give(pieceSize)
}

// Close ends what is under way.
func (r *reader) Close() error {
	r.cancel()
	for _, p := range r.ahead {
		<-p.done
		r.free(p)
	}
	r.ahead = nil
	return r.live.Close()
}
