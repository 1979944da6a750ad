package journal

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"sluice/internal/vfs"
)

// Log is what the segments in a folder have. Its methods but Remove may be called concurrently.
type Log struct {
	fs       vfs.FS
	dir      string
	segments []string // paths
	objects  []Object // in the order of their records
}

// Object is an object in a segment.
type Object struct {
	Name string
	Size int64

	path   string
	offset int64 // of its bytes
}

// Read reads the segments in a folder. A record that is not complete, and what follows it, was
// being written when the process or the machine ended, and is left out; so is an object that does
// not have its checksum: its own file may be whole.
func Read(fsys vfs.FS, dir string) (*Log, error) {
	segments, err := list(fsys, dir)
	if err != nil {
		return nil, err
	}
	l := &Log{fs: fsys, dir: dir, segments: segments}
	for _, path := range segments {
		if err := l.readSegment(path); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// list returns the paths of the segments in a folder.
func list(fsys vfs.FS, dir string) (segments []string, err error) {
	entries, err := fsys.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			segments = append(segments, filepath.Join(dir, e.Name()))
		}
	}
	return segments, err
}

// Newer returns nil if the folder has the segments that were read and no others, and otherwise a
// new Log.
func (l *Log) Newer() (*Log, error) {
	now, err := list(l.fs, l.dir)
	if err != nil || slices.Equal(now, l.segments) {
		return nil, err
	}
	return Read(l.fs, l.dir)
}

// readSegment adds a segment's objects.
func (l *Log) readSegment(path string) error {
	f, err := l.fs.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was drained meanwhile
	}
	if err != nil {
		return err
	}
	objects, err := readObjects(path, f)
	l.objects = append(l.objects, objects...)
	return errors.Join(err, f.Close())
}

func readObjects(path string, f io.Reader) ([]Object, error) {
	var all []Object
	at := map[string]int{} // indexes in all
	r, offset, buf := bufio.NewReaderSize(f, MaxBody), int64(0), make([]byte, MaxBody)
	for {
		got, err := read(r, buf)
		if errors.Is(err, errEnd) {
			break
		}
		if err != nil {
			return nil, err
		}
		bodyAt := offset + headerSize + int64(len(got.name))
		offset = bodyAt + int64(len(got.body))
		switch {
		case got.kind == removed:
			if i, ok := at[got.name]; ok {
				all[i].Name = ""
			}
		case got.kind == stored && got.whole:
			at[got.name] = len(all)
			all = append(all, Object{got.name, int64(len(got.body)), path, bodyAt})
		}
	}
	kept := all[:0]
	for _, o := range all {
		if o.Name != "" {
			kept = append(kept, o)
		}
	}
	return kept, nil
}

// Objects returns the objects that were stored and not removed, in the order of their records.
func (l *Log) Objects() []Object { return l.objects }

// Empty reports whether there is no segment.
func (l *Log) Empty() bool { return len(l.segments) == 0 }

// Exists reports whether there is a segment still: a process that opened the folder since has
// removed those that it has drained.
func (l *Log) Exists() (bool, error) {
	for _, path := range l.segments {
		f, err := l.fs.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, err
		}
		return true, f.Close()
	}
	return false, nil
}

// Open opens an object's segment, positioned at the object's byte off. It returns fs.ErrNotExist
// if the segment was removed.
func (l *Log) Open(o Object, off int64) (vfs.File, error) {
	f, err := l.fs.Open(o.path)
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(o.offset+off, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Remove removes the segments, durably. The own files for all objects must be durable.
func (l *Log) Remove() error {
	for _, path := range l.segments {
		if err := l.fs.Remove(path); err != nil {
			return err
		}
	}
	return l.fs.SyncDir(l.dir)
}
