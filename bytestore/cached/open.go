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

// Open implements bytestore.Store. It returns once the first and the last block
// of the range are cached, which prove the range; when both were cached before,
// the store beneath is not asked, nor whether the object still exists there.
// The reader ends after n bytes, fails once ctx has ended and a block is
// needed, and holds at most 32 KiB. It reads on after Delete only in the block
// that it stands in.
func (s *Store) Open(ctx context.Context, key bytestore.Key, off, n int64) (io.ReadCloser, error) {
	if err := s.usable(ctx); err != nil {
		return nil, fmt.Errorf("cached: open %s: %w", key, err)
	}
	_, made := key.Created()
	if !made || off < 0 || n <= 0 || n > math.MaxInt64-off {
		return s.inner.Open(ctx, key, off, n)
	}
	r := &reader{s: s, ctx: ctx, key: key, pos: off, end: off + n, flights: map[int64]*flight{}}
	if err := r.begin(); err != nil {
		return nil, fmt.Errorf("cached: open %s: %w", key, errors.Join(err, r.Close()))
	}
	return r, nil
}

// reader reads a range, block by block.
type reader struct {
	s        *Store
	ctx      context.Context
	key      bytestore.Key
	pos, end int64

	block   *blockFile        // the block at pos, nil before it is opened
	rest    io.ReadCloser     // of the store beneath, once the cache is of no use
	flights map[int64]*flight // that we wait for or will; nil for those that have ended
	asked   int64             // blocks before this one were looked up
	damages int               // blocks found damaged in this range
	closed  bool
}

// begin opens the first block, and sees to it that the range is one.
func (r *reader) begin() error {
	first, last := r.pos/blockSize, r.last()
	if first < last {
		if _, err := r.ask(last, false); err != nil { // to come together with the first
			return err
		}
	}
	if err := r.advance(); err != nil {
		return err
	}
	if first == last || r.rest != nil {
		return nil
	}
	b, err := r.open(last)
	if errors.Is(err, errNotKept) {
		return r.bypass()
	}
	if err == nil {
		r.s.counts.trouble(b.close())
	}
	return err
}

// last is the number of the block in which the range ends.
func (r *reader) last() int64 { return (r.end - 1) / blockSize }

// span is what we need of a block.
func (r *reader) span(number int64) span {
	return span{blockID{r.key, number}, min(blockSize, r.end-number*blockSize)}
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
		return n, fmt.Errorf("cached: read %s: %w", r.key, err)
	}
	return n, nil
}

func (r *reader) read(p []byte) (int, error) {
	for r.rest == nil {
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
		if err := r.damaged(err); err != nil {
			return 0, err
		}
	}
	n, err := r.rest.Read(p)
	if errors.Is(err, io.EOF) && n == len(p) {
		return n, nil
	}
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: it ends at byte %d", bytestore.ErrTruncated, r.pos+int64(n))
	}
	return n, err
}

// advance opens the block at pos, or the rest of the range in the store
// beneath, and asks for the blocks to come.
func (r *reader) advance() error {
	number := r.pos / blockSize
	if _, err := r.ask(number, false); err != nil {
		return err
	}
	if err := r.askAhead(number); err != nil {
		return err
	}
	b, err := r.open(number)
	if errors.Is(err, errNotKept) {
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

// ask begins to wait for a block that is not cached. False when it was to come
// ahead and there is no room for that.
func (r *reader) ask(number int64, ahead bool) (bool, error) {
	if _, asked := r.flights[number]; asked {
		return true, nil
	}
	e, f, err := r.s.join(r.span(number), ahead)
	if f != nil {
		r.flights[number] = f
	}
	return e != nil || f != nil, err
}

// askAhead asks for the blocks after the one with the number, each once.
func (r *reader) askAhead(number int64) error {
	r.asked = max(r.asked, number+1)
	for r.asked <= min(number+int64(r.s.ahead), r.last()) {
		ok, err := r.ask(r.asked, true)
		if err != nil || !ok {
			return err
		}
		r.asked++
	}
	return nil
}

// attempts is how often a block is looked for: it may be evicted or found
// damaged as soon as it is there.
const attempts = 4

// open waits for a block and opens it. errNotKept when it is not to be had from
// the cache.
func (r *reader) open(number int64) (*blockFile, error) {
	for range attempts {
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
					r.s.counts.trouble(err) // not the fault of the file
					return nil, errNotKept
				}
				r.s.drop(e, err)
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
		// A fetch ahead may have failed long ago.
		if err != nil && !f.ahead {
			return nil, err
		}
	}
	return nil, errNotKept
}

// drop takes out an entry of which the file is of no use.
func (s *Store) drop(e *entry, why error) {
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

// maxDamages is how many damaged blocks a reader fetches again before it has
// had enough of the folder.
const maxDamages = 8

// damaged gives up the block that is open, which shall be fetched again.
func (r *reader) damaged(why error) error {
	r.s.drop(r.block.entry, why)
	r.closeBlock()
	if r.damages++; r.damages < maxDamages {
		return nil
	}
	return r.bypass()
}

// bypass opens the rest of the range in the store beneath.
func (r *reader) bypass() (err error) {
	r.release()
	r.s.counts.bypasses.Add(1)
	r.rest, err = r.s.inner.Open(r.ctx, r.key, r.pos, r.end-r.pos)
	return err
}

// release lets go what the reader has of the cache.
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
		r.s.counts.trouble(r.block.close())
		r.block = nil
	}
}

// Close implements io.Closer. A second Close does nothing.
func (r *reader) Close() error {
	r.closed = true
	r.release()
	if r.rest == nil {
		return nil
	}
	rest := r.rest
	r.rest = nil
	return rest.Close()
}
