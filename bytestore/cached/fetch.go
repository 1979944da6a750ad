package cached

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"sluice/bytestore"
)

// errNotKept: the block was not cached, and that is nobody's fault. The reader
// goes on in the store beneath.
var errNotKept = errors.New("cached: the block is not kept")

// flight is a fetch of one block for all who need it up to the same length. It
// ends when the block is cached or cannot be, or when nobody waits any more.
type flight struct {
	span
	ahead  bool // begun for a reader that did not wait yet
	cancel context.CancelFunc
	done   chan struct{} // closed when err is set
	err    error         // errNotKept, or that of the store beneath

	// These are under the Store's lock.
	waiting   int
	forgotten bool // the object was deleted meanwhile
}

// join gives the cached entry, or else the flight, which may begin now and
// which the caller leaves. With ahead it is neither when too many flights are
// ahead of their readers already.
func (s *Store) join(want span, ahead bool) (*entry, *flight, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, fs.ErrClosed
	}
	if e := s.blocks.find(want); e != nil {
		return e, nil, nil
	}
	if f := s.flights[want]; f != nil {
		f.waiting++
		return nil, f, nil
	}
	if ahead && !s.takeAhead() {
		return nil, nil, nil
	}
	ctx, cancel := context.WithCancel(s.ctx)
	f := &flight{span: want, ahead: ahead, cancel: cancel, done: make(chan struct{}), waiting: 1}
	s.flights[want] = f
	s.running.Go(func() { s.fly(ctx, f) })
	return nil, f, nil
}

func (s *Store) takeAhead() bool {
	select {
	case s.aheadSlots <- struct{}{}:
		return true
	default:
		return false
	}
}

// wait returns when the flight has ended, with its error, or ctx has.
func (f *flight) wait(ctx context.Context) error {
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave ends the flight if nobody else waits for it.
func (s *Store) leave(f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.waiting--; f.waiting == 0 {
		s.retire(f)
		f.cancel()
	}
}

// retire lets nobody join the flight any more. The caller holds the lock.
func (s *Store) retire(f *flight) {
	if s.flights[f.span] == f { // no later one of the same block
		delete(s.flights, f.span)
	}
}

// fly fetches the block and tells all who wait.
func (s *Store) fly(ctx context.Context, f *flight) {
	defer f.cancel()
	err := s.fetch(ctx, f)
	if err != nil && s.ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", fs.ErrClosed, err)
	}
	if f.ahead {
		<-s.aheadSlots
	}
	f.err = err
	s.mu.Lock()
	s.retire(f)
	s.mu.Unlock()
	close(f.done)
}

// fileBuffers hold the file of a block while it is fetched.
var fileBuffers = sync.Pool{New: func() any { return new([headerSize + blockSize]byte) }}

func (s *Store) fetch(ctx context.Context, f *flight) error {
	if err := s.takeSlot(ctx); err != nil {
		return err
	}
	defer func() { <-s.slots }()
	if !s.keepsFolder() || !s.diskHasRoom() {
		return errNotKept
	}
	s.counts.fetches.Add(1)
	buf := fileBuffers.Get().(*[headerSize + blockSize]byte)
	defer fileBuffers.Put(buf)
	data := buf[headerSize : headerSize+f.length]
	if err := s.read(ctx, f.span, data); err != nil {
		return err
	}
	newHeader(f.blockID, data).put(buf[:headerSize])
	e := &entry{f.span, rand.Uint64()}
	if !s.makeRoom(e.size()) || !s.write(e, buf[:headerSize+f.length]) {
		return errNotKept
	}
	return s.enter(f, e)
}

// slotWait is how long a fetch waits for its slot. Where the fetches under way
// take longer the store beneath stalls for them, which must not stop all others.
const slotWait = time.Second

// takeSlot waits until a further fetch may run. errNotKept when that does not come
// soon: then the block is read past the cache.
func (s *Store) takeSlot(ctx context.Context) error {
	select {
	case s.slots <- struct{}{}:
		return nil
	default:
	}
	soon := time.NewTimer(slotWait)
	defer soon.Stop()
	select {
	case s.slots <- struct{}{}:
		return nil
	case <-soon.C:
		return errNotKept
	case <-ctx.Done():
		return ctx.Err()
	}
}

// read fills data with the block from the store beneath.
func (s *Store) read(ctx context.Context, from span, data []byte) error {
	r, err := s.inner.Open(ctx, from.key, from.number*blockSize, from.length)
	if err != nil {
		return err
	}
	n := 0
	for n < len(data) && err == nil {
		var m int
		m, err = r.Read(data[n:])
		n += m
	}
	switch {
	case n == len(data):
		err = nil
	case errors.Is(err, io.EOF):
		err = bytestore.ErrTruncated // no reader shall take it for the end of its range
	}
	if err != nil {
		err = fmt.Errorf("block %d broke off after %d of %d bytes: %w", from.number, n, from.length, err)
	}
	return errors.Join(err, r.Close())
}

// write makes the entry's file, for which there is room, and reports whether it
// could. A power cut may leave it torn.
func (s *Store) write(e *entry, file []byte) bool {
	temp := filepath.Join(s.shard(e.key), tempPrefix+e.name())
	err := s.writeFile(temp, file)
	if err == nil {
		err = s.fs.Rename(temp, s.path(e))
	}
	if err == nil {
		s.counts.last.Store(nil)
		return true
	}
	// Either may be there when an operation failed that was carried out.
	left := errors.Join(removed(s.fs.Remove(temp)), removed(s.fs.Remove(s.path(e))))
	if left == nil {
		s.release(e.size())
	}
	s.counts.trouble(errors.Join(err, left))
	return false
}

func (s *Store) writeFile(name string, file []byte) error {
	f, err := s.fs.Create(name)
	if errors.Is(err, fs.ErrNotExist) {
		if err := s.fs.Mkdir(filepath.Dir(name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		f, err = s.fs.Create(name)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(file)
	return errors.Join(err, f.Close())
}

// enter makes the entry known, unless its object was deleted meanwhile.
func (s *Store) enter(f *flight, e *entry) error {
	s.mu.Lock()
	displaced, err := e, errNotKept
	if !f.forgotten {
		displaced, err = s.blocks.add(e), nil
	}
	s.mu.Unlock()
	if displaced != nil {
		s.discard(displaced)
	}
	return err
}
