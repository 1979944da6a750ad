package localfs

import (
	"sync"

	"sluice/internal/vfs"
)

// folder is a folder of objects whose fsync is shared: a sync that is asked
// for while another runs waits for the next one, never for the running one,
// which may have begun before the entry in question was made. All that ask
// meanwhile share that next one.
type folder struct {
	fs   vfs.FS
	path string
	fail func(error) error // what to make of a sync that failed

	mu   sync.Mutex
	next *round // the sync that has not begun, nil when nobody waits for it
	last *round // the latest that was entered into; rounds run one by one
}

// round is one sync and all who wait for it. Whoever enters it first leads it.
type round struct {
	before *round        // has to end before this one begins
	done   chan struct{} // closed when err is set
	err    error
}

func newFolder(fsys vfs.FS, path string, fail func(error) error) *folder {
	none := &round{done: make(chan struct{})}
	close(none.done)
	return &folder{fs: fsys, path: path, fail: fail, last: none}
}

// sync returns when the entries of the folder, as they are at the call,
// survive a power cut.
func (f *folder) sync() error {
	r, leads := f.join()
	if leads {
		<-r.before.done
		f.begin(r)
		if err := f.fs.SyncDir(f.path); err != nil {
			r.err = f.fail(err) // before the next round begins, which must know
		}
		close(r.done)
	}
	<-r.done
	return r.err
}

// join enters the caller into the next round.
func (f *folder) join() (r *round, leads bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == nil {
		f.next = &round{before: f.last, done: make(chan struct{})}
		f.last = f.next
		leads = true
	}
	return f.next, leads
}

// begin makes those who come from now on wait for a later round.
func (f *folder) begin(r *round) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = nil
	r.before = nil // or no round would ever be garbage
}
