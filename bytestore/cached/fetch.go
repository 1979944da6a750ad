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

// join returns the cached entry or a flight, which it begins if necessary and which the caller must
// leave. For a prefetch it returns neither if too many prefetches are in progress.
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
	if ahead && !s.acquireAhead() {
		return nil, nil, nil
	}
	ctx, cancel := context.WithCancel(s.ctx)
	f := &flight{span: want, ahead: ahead, cancel: cancel, done: make(chan struct{}), waiting: 1}
	s.flights[want] = f
	s.running.Go(func() { s.runFlight(ctx, f) })
	return nil, f, nil
}

func (s *Store) acquireAhead() bool {
	select {
	case s.aheadSlots <- struct{}{}:
		return true
	default:
		return false
	}
}

// leave ends the flight if no other reader waits for it.
func (s *Store) leave(f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.waiting--; f.waiting == 0 {
		s.retire(f)
		f.cancel()
	}
}

// retire prevents readers from joining the flight. The caller must hold the lock.
func (s *Store) retire(f *flight) {
	if s.flights[f.span] == f { // not a later flight for the same block
		delete(s.flights, f.span)
	}
}

// runFlight fetches the block and wakes the readers that wait for it.
func (s *Store) runFlight(ctx context.Context, f *flight) {
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

// fileBuffers hold the files of blocks being fetched.
var fileBuffers = sync.Pool{New: func() any { return new([headerSize + blockSize]byte) }}

func (s *Store) fetch(ctx context.Context, f *flight) error {
	if err := s.acquireSlot(ctx); err != nil {
		return err
	}
	defer func() { <-s.slots }()
	if !s.ownsFolder() || !s.diskHasSpace() {
		return errNotCached
	}
	s.counts.fetches.Add(1)
	buf := fileBuffers.Get().(*[headerSize + blockSize]byte)
	defer fileBuffers.Put(buf)
	data := buf[headerSize : headerSize+f.length]
	if err := s.readBlock(ctx, f.span, data); err != nil {
		return err
	}
	newHeader(f.blockID, data).put(buf[:headerSize])
	e := &entry{f.span, rand.Uint64()}
	if !s.makeSpace(e.size()) || !s.writeBlock(e, buf[:headerSize+f.length]) {
		return errNotCached
	}
	return s.addEntry(f, e)
}

// slotTimeout is how long a fetch waits for a slot. If the fetches in progress take longer, the
// underlying store stalls for them, which must not stop all reads.
const slotTimeout = time.Second

// acquireSlot waits until another fetch may run. It returns errNotCached after slotTimeout.
func (s *Store) acquireSlot(ctx context.Context) error {
	select {
	case s.slots <- struct{}{}:
		return nil
	default:
	}
	soon := time.NewTimer(slotTimeout)
	defer soon.Stop()
	select {
	case s.slots <- struct{}{}:
		return nil
	case <-soon.C:
		return errNotCached
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readBlock fills data with the block from the underlying store.
func (s *Store) readBlock(ctx context.Context, from span, data []byte) error {
	r, err := s.inner.Open(ctx, from.object, from.number*blockSize, from.length)
	if err != nil {
		return err
	}
	n, err := bytestore.ReadFull(r, data)
	if errors.Is(err, io.EOF) {
		err = bytestore.ErrTruncated // io.EOF would look like the reader's end
	}
	if err != nil {
		err = fmt.Errorf("block %d ended after %d of %d bytes: %w", from.number, n, from.length, err)
	}
	return errors.Join(err, r.Close())
}

// writeBlock writes the entry's file, for which space was acquired, and reports whether it
// succeeded. After a power failure the file may be incomplete.
func (s *Store) writeBlock(e *entry, file []byte) bool {
	temp := filepath.Join(s.shard(e.object), tempPrefix+e.fileName())
	err := s.writeFile(temp, file)
	if err == nil {
		err = s.fs.Rename(temp, s.path(e))
	}
	if err == nil {
		s.counts.last.Store(nil)
		return true
	}
	// An operation that failed may have taken effect, so either file may exist.
	left := errors.Join(ignoreNotExist(s.fs.Remove(temp)), ignoreNotExist(s.fs.Remove(s.path(e))))
	if left == nil {
		s.releaseSpace(e.size())
	}
	s.counts.noteError(errors.Join(err, left))
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

// addEntry adds the entry to the index, unless the object was invalidated during the fetch.
func (s *Store) addEntry(f *flight, e *entry) error {
	s.mu.Lock()
	displaced, err := e, errNotCached
	if !f.invalidated {
		displaced, err = s.blocks.add(e), nil
	}
	s.mu.Unlock()
	if displaced != nil {
		s.discard(displaced)
	}
	return err
}
