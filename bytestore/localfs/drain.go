package localfs

import (
	"errors"
	"sync"
	"time"

	"sluice/bytestore"
	"sluice/bytestore/localfs/internal/journal"
	"sluice/internal/vfs"
)

// The journal's bounds. docs/decisions/0042-journal.md has the measurements.
const (
	// deferredSize is the greatest length in bytes of objects that are kept in the journal.
	deferredSize = journal.MaxBody
	// A segment is drained when it has drainSize bytes, or drainAfter after its first record, and
	// takes up to segmentSize bytes meanwhile.
	drainSize   = 32 << 20
	segmentSize = 64 << 20
	drainAfter  = 2 * time.Second
	// journalSpace is how much space the journal can use: a segment that is drained and the next
	// one, each with its removals. It is used only while so much is free above the reserve.
	journalSpace = 4 * segmentSize
)

// drains makes the files for the journal's objects durable, and then removes its segments. A nil
// *drains belongs to a store without a journal.
type drains struct {
	space   *space
	failure *failure
	whole   vfs.Whole
	journal *journal.Journal

	draining sync.Mutex // held by each drain

	soon   chan struct{} // holds an element if there may be a segment
	urgent chan struct{} // holds an element if the segment must not wait
	stop   chan struct{} // closed when the store is closed
	ended  sync.WaitGroup
}

// newDrains begins to use a journal in dir. It returns nil if the file system cannot be synced as a
// whole.
func newDrains(fsys vfs.FS, dir string, space *space, failure *failure) (*drains, error) {
	whole, err := fsys.Whole(dir)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	d := &drains{
		space: space, failure: failure, whole: whole, journal: journal.New(fsys, dir, segmentSize, failure.set),
		soon: make(chan struct{}, 1), urgent: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	d.ended.Go(d.run)
	return d, nil
}

// takes reports whether the journal takes an object. Only names that no other object has had are
// taken: nothing refers to a file that a crash leaves under such a name.
func (d *drains) takes(name bytestore.Name, size int64) bool {
	if d == nil || size < 0 || size > deferredSize {
		return false
	}
	if _, made := name.Created(); !made {
		return false
	}
	if d.space.check(2*size+journalSpace) != nil {
		d.now() // the journal's space is needed
		return false
	}
	return true
}

// append keeps an object in the journal, which sync makes durable. buf has its bytes after
// journal.Room.
func (d *drains) append(name bytestore.Name, buf []byte) error {
	err := d.journal.Append(string(name), buf)
	if err == nil {
		err = d.failure.err()
	}
	if err != nil || d.journal.Size() >= drainSize {
		d.now()
	} else {
		signal(d.soon)
	}
	return err
}

// sync returns nil once all objects are durable that were appended before the call.
func (d *drains) sync() error {
	if d == nil {
		return nil
	}
	err := d.journal.Sync()
	if vfs.IsFull(err) {
		d.drain() // their own files have space
		err = d.journal.Sync()
	}
	return err
}

// forget must be called before an object is removed.
func (d *drains) forget(name bytestore.Name) {
	if d != nil {
		d.journal.Forget(string(name))
	}
}

// now makes the next drain begin at once.
func (d *drains) now() {
	if d != nil {
		signal(d.urgent)
	}
}

// signal puts an element into a channel that has room for one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run drains segments until the store is closed.
func (d *drains) run() {
	for {
		select {
		case <-d.urgent:
		case <-d.soon:
			if !d.wait() {
				return
			}
		case <-d.stop:
			return
		}
		d.drain()
	}
}

// wait waits for a segment's time. It reports whether it is to be drained.
func (d *drains) wait() bool {
	timer := time.NewTimer(drainAfter)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.urgent:
	case <-d.stop:
		return false
	}
	return true
}

// drain makes the files for the current segment's objects durable, which were all written before
// their records, and removes the segment. If that fails, the store stops, and the segment stays for
// the next Open: bytes that a failed sync has lost must be written again.
func (d *drains) drain() {
	d.draining.Lock()
	defer d.draining.Unlock()
	segment := d.journal.Seal()
	if segment == nil {
		return
	}
	err := d.failure.err()
	if err == nil {
		if err = d.whole.Sync(); err == nil {
			err = segment.Remove()
		}
	}
	if err != nil {
		_ = d.failure.set(errors.Join(err, segment.Close())) // it is recorded
	}
}

// end drains the journal and ends the goroutine. Nothing may be appended any more.
func (d *drains) end() error {
	close(d.stop)
	d.ended.Wait()
	d.drain()
	return d.whole.Close()
}
