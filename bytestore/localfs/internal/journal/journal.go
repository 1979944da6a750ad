// Package journal keeps small objects durable in files to which all writers append, until the
// objects' own files are durable. One fsync then serves many writers.
//
// A journal is a number of segments, files in one folder that are only appended to:
//
//	.journal-LR4CXZ7PCVSGYM3SYD3PLSNRRE
//
// No segment has an earlier segment's name, so a reader never takes it for that one. A segment has
// a record for each object, with its name, its bytes and a checksum, and another for each that was
// removed since. It is sealed, and removed once its objects' own files are durable. Read finds the
// objects in segments that a process left when it ended.
//
// A power failure can leave records that were not synced in any state. If a synced record cannot be
// read, the segment is damaged: each record states how many before it were durable. Read goes on
// after such a record, and Remove keeps such a segment under another name, for operators:
//
//	.damaged-journal-LR4CXZ7PCVSGYM3SYD3PLSNRRE
package journal

import (
	"crypto/rand"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"sluice/bytestore/localfs/internal/groups"
	"sluice/internal/vfs"
)

// ErrFull is returned by Append if the current segment takes no more: the caller must make the
// object durable by itself.
var ErrFull = errors.New("journal: the segment is full")

// maxObjects is how many objects a segment can have. Their names are in memory.
const maxObjects = 8192

// prefix begins segments' names; keptPrefix begins the names of damaged segments that Remove keeps.
const (
	prefix     = ".journal-"
	keptPrefix = ".damaged-journal-"
)

// Journal appends records to the current segment. Its methods may be called concurrently.
type Journal struct {
	fs         vfs.FS
	dir        string
	limit      int64             // of a segment, in bytes
	syncFailed func(error) error // maps a sync's error, before the next sync begins

	writing sync.Mutex // held while a record is written, and while a segment is sealed
	current *Segment   // nil: the next record begins one; guarded by writing
	size    atomic.Int64

	syncs groups.Group[struct{}]

	mu       sync.Mutex
	live     map[string]*Segment // by the names of their objects
	unsynced []*Segment          // with objects that are not known to be durable
}

// Segment is one file in a journal.
type Segment struct {
	j    *Journal
	path string

	syncing sync.Mutex // held while the file is synced, and while it is closed; before mu

	mu      sync.Mutex
	file    vfs.File
	size    int64
	objects int
	records int   // that were written, with the removals
	durable int   // the first of them, which a sync has covered
	synced  bool  // no record was written since the last sync began
	broken  bool  // a record may be incomplete, so no other may follow it
	lost    error // why a sync failed: it is unknown which records survive a power failure
}

// New returns a journal with its segments in a folder, which must have none. A segment has at most
// limit bytes, and at most as many again for removals, one for each object. syncFailed is called
// with each failed sync's error, before another sync begins, and returns the error for who waited
// for it.
func New(fsys vfs.FS, dir string, limit int64, syncFailed func(error) error) *Journal {
	return &Journal{fs: fsys, dir: dir, limit: limit, syncFailed: syncFailed, live: map[string]*Segment{}}
}

// Size returns how many bytes the current segment has.
func (j *Journal) Size() int64 { return j.size.Load() }

// Append writes an object's record, which survives a power failure once Sync has returned nil. The
// name must be new. buf has Room bytes, which Append overwrites, and then the object's bytes, at
// most MaxBody. If it returns an error, the object may be found by Read nevertheless.
func (j *Journal) Append(name string, buf []byte) error {
	record := encode(stored, name, buf)
	j.writing.Lock()
	defer j.writing.Unlock()
	s, err := j.open()
	if err != nil {
		return err
	}
	size, err := s.append(record)
	if err != nil {
		return err
	}
	j.size.Store(size)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.live[name] = s
	return nil
}

// open returns the current segment, which it creates durably if there is none. The caller must hold
// the lock.
func (j *Journal) open() (*Segment, error) {
	if j.current != nil {
		return j.current, nil
	}
	path := filepath.Join(j.dir, prefix+rand.Text())
	f, err := j.fs.Create(path)
	if err != nil {
		return nil, err
	}
	if err := j.fs.SyncDir(j.dir); err != nil {
		if !errors.Is(err, vfs.ErrNotOpened) {
			err = j.syncFailed(err)
		}
		return nil, errors.Join(err, f.Close(), j.fs.Remove(path))
	}
	j.current = &Segment{j: j, path: path, file: f, synced: true}
	return j.current, nil
}

// append writes a record if there is room for it, and returns the segment's size.
func (s *Segment) append(record []byte) (size int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken || s.objects == maxObjects || s.size+int64(len(record)) > s.j.limit {
		return 0, ErrFull
	}
	if err := s.write(record); err != nil {
		return 0, err
	}
	s.objects++
	s.synced = false
	s.j.needsSync(s)
	return s.size, nil
}

// Sync returns nil once all objects survive a power failure that were appended before the call.
// Concurrent callers share an fsync. After an error, it returns that error until the segment is
// removed.
func (j *Journal) Sync() error {
	j.mu.Lock()
	nothing := len(j.unsynced) == 0 // while a sync runs, its segment is there
	j.mu.Unlock()
	if nothing {
		return nil
	}
	return j.syncs.Do(struct{}{}, func([]struct{}) error { return j.sync() })
}

// sync syncs each segment that needs it.
func (j *Journal) sync() error {
	j.mu.Lock()
	segments := slices.Clone(j.unsynced)
	j.mu.Unlock()
	for _, s := range segments {
		if err := s.sync(); err != nil {
			return err
		}
	}
	return nil
}

// sync syncs the segment's records. More records may be written meanwhile.
func (s *Segment) sync() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.mu.Lock()
	file, lost, records := s.file, s.lost, s.records
	s.synced = true
	s.mu.Unlock()
	if lost != nil || file == nil {
		return lost
	}
	err := file.Sync()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		if !vfs.IsFull(err) {
			err = s.j.syncFailed(err)
		}
		s.broken, s.lost = true, err
		return err
	}
	s.durable = records
	if s.synced {
		s.j.needsNoSync(s)
	}
	return nil
}

// needsSync notes that a segment has records that are not durable.
func (j *Journal) needsSync(s *Segment) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.Contains(j.unsynced, s) {
		j.unsynced = append(j.unsynced, s)
	}
}

// needsNoSync notes that a segment's objects are all durable.
func (j *Journal) needsNoSync(s *Segment) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.unsynced = slices.DeleteFunc(j.unsynced, func(other *Segment) bool { return other == s })
}

// write writes a record. The caller must hold the lock.
func (s *Segment) write(record []byte) error {
	stamp(record, s.durable)
	if _, err := s.file.Write(record); err != nil {
		s.broken = true
		return err
	}
	s.size += int64(len(record))
	s.records++
	return nil
}

// Forget records that an object is removed: Read will not find it when the process has ended. A
// power failure may lose that record. It does nothing for other names.
func (j *Journal) Forget(name string) {
	j.mu.Lock()
	s := j.live[name]
	delete(j.live, name)
	j.mu.Unlock()
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken || s.file == nil {
		return
	}
	// After an error the object may be found again, as after a power failure.
	_ = s.write(encode(removed, name, make([]byte, Room)))
}

// Seal ends the current segment and returns it, or nil if there is none.
func (j *Journal) Seal() *Segment {
	j.writing.Lock()
	defer j.writing.Unlock()
	s := j.current
	j.current = nil
	j.size.Store(0)
	return s
}

// Remove removes a sealed segment, durably. The own files for its objects must be durable.
func (s *Segment) Remove() error {
	// It is open until it has no name, so that no Forget is lost.
	if err := errors.Join(s.j.fs.Remove(s.path), s.close()); err != nil {
		return err
	}
	s.forgetAll()
	s.j.needsNoSync(s)
	if err := s.j.fs.SyncDir(s.j.dir); err != nil && !errors.Is(err, vfs.ErrNotOpened) {
		return s.j.syncFailed(err)
	}
	return nil
}

// Close syncs a sealed segment, closes it, and leaves it where Read finds it. It is idempotent.
func (s *Segment) Close() error { return errors.Join(s.sync(), s.close()) }

func (s *Segment) close() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}

// forgetAll makes Forget do nothing for the segment's objects.
func (s *Segment) forgetAll() {
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	for name, in := range s.j.live {
		if in == s {
			delete(s.j.live, name)
		}
	}
}
