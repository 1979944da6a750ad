package cached

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"

	"sluice/bytestore"
	"sluice/internal/vfs"
)

// Open implements bytestore.Store. It returns once the range's first and last block are cached,
// which proves that the range exists. If both were cached before, the underlying store is not
// accessed, so the object may have been deleted there. The reader ends after n bytes, fails if it
// needs a block after ctx has ended, and holds at most 32 KiB. After Delete it can read only the
// rest of its current block.
func (s *Store) Open(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	if err := s.usable(ctx); err != nil {
		return nil, fmt.Errorf("cached: open %s: %w", name, err)
	}
	_, made := name.Created()
	if !made || off < 0 || n <= 0 || n > math.MaxInt64-off {
		return s.inner.Open(ctx, name, off, n)
	}
	r := &reader{s: s, ctx: ctx, name: name, pos: off, end: off + n, flights: map[int64]*flight{}}
	if err := r.begin(); err != nil {
		return nil, fmt.Errorf("cached: open %s: %w", name, errors.Join(err, r.Close()))
	}
	return r, nil
}

// reader reads a range, block by block.
type reader struct {
	s        *Store
	ctx      context.Context
	name     bytestore.Name
	pos, end int64

	block     *blockFile        // the block at pos, or nil if it is not open
	direct    io.ReadCloser     // the underlying store's reader if the cache is bypassed
	flights   map[int64]*flight // joined flights; nil for those that have ended
	requested int64             // the first block that was not requested
	damaged   int               // blocks found damaged in this range
	closed    bool
}

// begin opens the first block and ensures that the last one exists.
func (r *reader) begin() error {
	first, last := r.pos/blockSize, r.last()
	if first < last {
		if _, err := r.request(last, false); err != nil { // so that it is fetched together with the first
			return err
		}
	}
	if err := r.advance(); err != nil {
		return err
	}
	if first == last || r.direct != nil {
		return nil
	}
	b, err := r.open(last)
	if errors.Is(err, errNotCached) {
		return r.bypass()
	}
	if err == nil {
		r.s.counts.noteError(b.close())
	}
	return err
}

// last returns the number of the range's last block.
func (r *reader) last() int64 { return (r.end - 1) / blockSize }

// span returns a block's part that the range needs.
func (r *reader) span(number int64) span {
	return span{blockID{r.name, number}, min(blockSize, r.end-number*blockSize)}
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	p = p[:min(int64(len(p)), r.end-r.pos)]
	if r.closed {
		return 0, fs.ErrClosed
	}
	if r.pos == r.end {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, err := r.read(p)
	r.pos += int64(n)
	if err != nil {
		return n, fmt.Errorf("cached: read %s: %w", r.name, err)
	}
	return n, nil
}

func (r *reader) read(p []byte) (int, error) {
	for r.direct == nil {
		if r.block == nil {
			if err := r.advance(); err != nil {
				return 0, err
			}
			continue
		}
		off := r.pos % blockSize
		n, err := r.block.readAt(p, off)
		if err == nil {
			if off+int64(n) == blockSize || r.pos+int64(n) == r.end {
				r.closeBlock()
			}
			return n, nil
		}
		if err := r.replaceDamaged(err); err != nil {
			return 0, err
		}
	}
	n, err := r.direct.Read(p)
	if errors.Is(err, io.EOF) && n == len(p) {
		return n, nil
	}
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: it ends at byte %d", bytestore.ErrTruncated, r.pos+int64(n))
	}
	return n, err
}

// advance opens the block at pos, or the remaining range in the underlying store, and prefetches
// the next blocks.
func (r *reader) advance() error {
	number := r.pos / blockSize
	if _, err := r.request(number, false); err != nil {
		return err
	}
	if err := r.prefetch(number); err != nil {
		return err
	}
	b, err := r.open(number)
	if errors.Is(err, errNotCached) {
		return r.bypass()
	}
	if err != nil {
		return err
	}
	if _, fetched := r.flights[number]; fetched {
		delete(r.flights, number)
		r.s.counts.misses.Add(1)
	} else {
		r.s.counts.hits.Add(1)
	}
	r.block = b
	return nil
}

// request joins a block's fetch unless the block is cached. For a prefetch it returns false if too
// many are in progress.
func (r *reader) request(number int64, ahead bool) (bool, error) {
	if _, asked := r.flights[number]; asked {
		return true, nil
	}
	e, f, err := r.s.join(r.span(number), ahead)
	if f != nil {
		r.flights[number] = f
	}
	return e != nil || f != nil, err
}

// prefetch requests the blocks after the given one, each once.
func (r *reader) prefetch(number int64) error {
	r.requested = max(r.requested, number+1)
	for r.requested <= min(number+int64(r.s.ahead), r.last()) {
		ok, err := r.request(r.requested, true)
		if err != nil || !ok {
			return err
		}
		r.requested++
	}
	return nil
}

// maxOpenAttempts limits how often a block is looked up: it may be evicted or found damaged as soon
// as it is cached.
const maxOpenAttempts = 4

// open waits for a block and opens it. It returns errNotCached if the cache cannot provide it.
func (r *reader) open(number int64) (*blockFile, error) {
	for range maxOpenAttempts {
		f := r.flights[number]
		if f == nil {
			e, joined, err := r.s.join(r.span(number), false)
			if err != nil {
				return nil, err
			}
			if e != nil {
				b, err := openBlock(r.s.fs, r.s.path(e), e)
				if err == nil {
					return b, nil
				}
				if vfs.IsTooManyFiles(err) {
					r.s.counts.noteError(err) // the file is not damaged
					return nil, errNotCached
				}
				r.s.dropDamaged(e, err)
				continue
			}
			f = joined
		}
		err := f.wait(r.ctx)
		r.s.leave(f)
		r.flights[number] = nil
		if r.ctx.Err() != nil {
			return nil, r.ctx.Err()
		}
		// A prefetch may have failed long ago: the block is fetched again.
		if err != nil && !f.ahead {
			return nil, err
		}
	}
	return nil, errNotCached
}

// dropDamaged removes an entry with an unusable file.
func (s *Store) dropDamaged(e *entry, why error) {
	s.mu.Lock()
	was := s.blocks.remove(e)
	s.mu.Unlock()
	if !was {
		return // it was evicted, deleted, or found damaged by another reader
	}
	s.counts.damaged.Add(1)
	why = fmt.Errorf("%s: %w", s.path(e), why)
	s.counts.last.Store(&why)
	s.discard(e)
}

// maxDamaged is the number of damaged blocks after which a reader bypasses the cache.
const maxDamaged = 8

// replaceDamaged drops the open block, so that it is fetched again.
func (r *reader) replaceDamaged(why error) error {
	r.s.dropDamaged(r.block.entry, why)
	r.closeBlock()
	if r.damaged++; r.damaged < maxDamaged {
		return nil
	}
	return r.bypass()
}

// bypass opens the remaining range in the underlying store.
func (r *reader) bypass() (err error) {
	r.release()
	r.s.counts.bypasses.Add(1)
	r.direct, err = r.s.inner.Open(r.ctx, r.name, r.pos, r.end-r.pos)
	return err
}

// release releases the open block and the flights.
func (r *reader) release() {
	r.closeBlock()
	for _, f := range r.flights {
		if f != nil {
			r.s.leave(f)
		}
	}
	clear(r.flights)
}

func (r *reader) closeBlock() {
	if r.block != nil {
		r.s.counts.noteError(r.block.close())
		r.block = nil
	}
}

// Close implements io.Closer. It is idempotent.
func (r *reader) Close() error {
	r.closed = true
	r.release()
	if r.direct == nil {
		return nil
	}
	rest := r.direct
	r.direct = nil
	return rest.Close()
}
