// Package journal keeps small objects durable in files to which all writers append, until the
// objects' own files are durable. One fsync then serves many writers.
//
// A journal is a number of segments, files in one folder that are only appended to:
//
//	.journal-0000000000000001
//
// A segment has a record for each object, with its name, its bytes and a checksum, and another for
// each that was removed since. It is sealed, and removed once the own files for its objects are
// durable. Read finds what the segments have that a process left when it ended.
package journal

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
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

// prefix begins the names of segments.
const prefix = ".journal-"

// Journal appends records to the current segment. Its methods may be called concurrently.
type Journal struct {
	fs         vfs.FS
	dir        string
	limit      int64             // of a segment, in bytes
	syncFailed func(error) error // maps a sync's error, before the next sync begins

	leading sync.Mutex // held while records are written, and while a segment is sealed
	current *Segment   // nil: the next record begins one; guarded by leading
	number  uint64     // the latest segment's; guarded by leading
	size    atomic.Int64

	batches groups.Group[*pending]

	mu   sync.Mutex
	live map[string]*Segment // by the names of their objects
}

// pending is a record that waits to be written, with others and one sync.
type pending struct {
	name   string
	record []byte
	err    error
}

// Segment is one file of a journal.
type Segment struct {
	j    *Journal
	path string

	mu      sync.Mutex
	file    vfs.File
	size    int64
	objects int
	broken  bool // a record may be incomplete, so no other may follow it
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

// Append returns nil once the record of an object survives a power failure. The name must be new.
// buf has Room bytes, which Append overwrites, and then the object's bytes, at most MaxBody. If it
// returns an error, the object may be found by Read nevertheless.
func (j *Journal) Append(name string, buf []byte) error {
	p := &pending{name: name, record: encode(stored, name, buf)}
	err := j.batches.Do(p, j.write)
	return cmp.Or(p.err, err)
}

// write writes records and syncs them. The error is for those that have none of their own.
func (j *Journal) write(all []*pending) error {
	j.leading.Lock()
	defer j.leading.Unlock()
	s, err := j.open()
	if err == nil {
		err = s.append(all)
	}
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, p := range all {
		if p.err == nil {
			j.live[p.name] = s
		}
	}
	j.size.Store(s.size)
	return nil
}

// open returns the current segment, which it creates durably if there is none.
func (j *Journal) open() (*Segment, error) {
	if j.current != nil {
		return j.current, nil
	}
	j.number++
	path := filepath.Join(j.dir, fmt.Sprintf("%s%016d", prefix, j.number))
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
	j.current = &Segment{j: j, path: path, file: f}
	return j.current, nil
}

// append writes those records for which there is room, and syncs them.
func (s *Segment) append(all []*pending) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.size
	for _, p := range all {
		if s.broken || s.objects == maxObjects || s.size+int64(len(p.record)) > s.j.limit {
			p.err = ErrFull
			continue
		}
		if err := s.write(p.record); err != nil {
			return err
		}
		s.objects++
	}
	if s.size == before {
		return nil
	}
	if err := s.file.Sync(); err != nil {
		s.broken = true
		if !vfs.IsFull(err) {
			err = s.j.syncFailed(err)
		}
		return err
	}
	return nil
}

// write writes a record. The caller must hold the lock.
func (s *Segment) write(record []byte) error {
	if _, err := s.file.Write(record); err != nil {
		s.broken = true
		return err
	}
	s.size += int64(len(record))
	return nil
}

// Forget says that an object is removed: Read will not find it when the process has ended. A power
// failure may lose that. It does nothing for other names.
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
	j.leading.Lock()
	defer j.leading.Unlock()
	s := j.current
	j.current = nil
	j.size.Store(0)
	return s
}

// Remove removes a sealed segment, durably. The own files for its objects must be durable.
func (s *Segment) Remove() error {
	// It is open until it has no name, so that no Forget is lost.
	if err := errors.Join(s.j.fs.Remove(s.path), s.Close()); err != nil {
		return err
	}
	s.forgetAll()
	if err := s.j.fs.SyncDir(s.j.dir); err != nil && !errors.Is(err, vfs.ErrNotOpened) {
		return s.j.syncFailed(err)
	}
	return nil
}

// Close closes a sealed segment, and leaves it where Read finds it. It is idempotent.
func (s *Segment) Close() error {
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

// isSegment reports whether a file's name is a segment's.
func isSegment(name string) bool { return strings.HasPrefix(name, prefix) }
