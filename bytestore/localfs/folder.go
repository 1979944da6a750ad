package localfs

import (
	"sync"

	"sluice/internal/vfs"
)

// folder is a folder of objects that share its fsync (group commit). A caller of sync joins the
// next fsync and never the running one, which may have begun before the caller's entry was made.
type folder struct {
	fs      vfs.FS
	path    string
	mapSync func(error) error // maps an fsync's error to a Put's

	mu   sync.Mutex
	next *batch // the fsync that has not begun; nil if no Put waits for it
	last *batch // the latest batch that was made; batches run one after the other
}

// batch is one fsync and its callers. The first of them carries it out.
type batch struct {
	before *batch        // must end before this one begins
	done   chan struct{} // closed once err is set
	err    error
}

func newFolder(fsys vfs.FS, path string, mapSync func(error) error) *folder {
	none := &batch{done: make(chan struct{})}
	close(none.done)
	return &folder{fs: fsys, path: path, mapSync: mapSync, last: none}
}

// sync returns nil once the folder's entries, as they were at the call, survive a power failure.
func (f *folder) sync() error {
	b, leads := f.join()
	if leads {
		<-b.before.done
		f.begin(b)
		if err := f.fs.SyncDir(f.path); err != nil {
			b.err = f.mapSync(err) // before the next batch begins, which must see it
		}
		close(b.done)
	}
	<-b.done
	return b.err
}

// join adds the caller to the next batch. It reports whether the caller must carry it out.
func (f *folder) join() (b *batch, leads bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == nil {
		f.next = &batch{before: f.last, done: make(chan struct{})}
		f.last = f.next
		leads = true
	}
	return f.next, leads
}

// begin closes the batch: later callers join the next one.
func (f *folder) begin(b *batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = nil
	b.before = nil // otherwise all batches would remain reachable
}
