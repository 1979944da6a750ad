package localfs

import (
	"sync"

	"sluice/internal/vfs"
)

// folder is a folder of objects that share its fsync.
type folder struct {
	fs      vfs.FS
	path    string
	mapSync func(error) error // maps an fsync's error to a Put's

	mu   sync.Mutex
	next *folderSync // that has not begun; nil if nobody waits for it
	last *folderSync // the latest that was made; nil before the first
}

// folderSync is one fsync of a folder. The first of its callers carries it out.
type folderSync struct {
	before *folderSync   // must end before this one begins; nil: none
	done   chan struct{} // closed once err is set
	err    error
}

func newFolder(fsys vfs.FS, path string, mapSync func(error) error) *folder {
	return &folder{fs: fsys, path: path, mapSync: mapSync}
}

// sync returns nil once the folder's entries, as they were at the call, survive a power failure. A
// caller joins the next fsync and never the running one, which may have begun before the caller's
// entry was made.
func (f *folder) sync() error {
	s, leads := f.join()
	if leads {
		if s.before != nil {
			<-s.before.done
		}
		f.begin(s)
		if err := f.fs.SyncDir(f.path); err != nil {
			s.err = f.mapSync(err) // before the next fsync begins, which must see it
		}
		close(s.done)
	}
	<-s.done
	return s.err
}

// join returns the next fsync. It reports whether the caller must carry it out.
func (f *folder) join() (s *folderSync, leads bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == nil {
		f.next = &folderSync{before: f.last, done: make(chan struct{})}
		f.last = f.next
		leads = true
	}
	return f.next, leads
}

// begin makes later callers join another fsync.
func (f *folder) begin(s *folderSync) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = nil
	s.before = nil // otherwise all of them would remain reachable
}
