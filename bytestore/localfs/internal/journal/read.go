package journal

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"sluice/internal/vfs"
)

// Log has the records in a folder's segments. Its methods but Remove may be called concurrently.
type Log struct {
	fs       vfs.FS
	dir      string
	segments []string // paths
	objects  []Object // in the order of their records
	damage   []Damage
	kept     []string
}

// Read reads the segments in a folder. It leaves out bytes that are no whole record, and goes on at
// the next whole one: a record was being written when the machine ended, or is damaged. An object
// that is left out may be whole in its own file.
func Read(fsys vfs.FS, dir string) (*Log, error) {
	segments, err := list(fsys, dir, prefix)
	if err != nil {
		return nil, err
	}
	l := &Log{fs: fsys, dir: dir, segments: segments}
	if l.kept, err = list(fsys, dir, keptPrefix); err != nil {
		return nil, err
	}
	for _, path := range segments {
		if err := l.readSegment(path); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// list returns the paths to a folder's files that have names with a prefix.
func list(fsys vfs.FS, dir, prefix string) (paths []string, err error) {
	entries, err := fsys.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, err
}

// Newer returns nil if the folder has exactly the segments that were read, and otherwise a new Log.
func (l *Log) Newer() (*Log, error) {
	now, err := list(l.fs, l.dir, prefix)
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
	s := segmentReader{path: path, f: f, buf: make([]byte, MaxBody), at: map[string]int{}}
	err = s.read()
	for _, o := range s.objects {
		if o.Name != "" {
			l.objects = append(l.objects, o)
		}
	}
	if s.damage != nil && s.damage.before < s.durable {
		l.damage = append(l.damage, s.damage.Damage)
	}
	return errors.Join(err, f.Close())
}

// Objects returns the objects that were stored and not removed, in the order of their records.
func (l *Log) Objects() []Object { return l.objects }

// Damage returns each damaged part in a segment.
func (l *Log) Damage() []Damage { return l.damage }

// Kept returns the paths of files that Remove has kept before this Log was read.
func (l *Log) Kept() []string { return l.kept }

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

// Remove removes the segments, durably, and keeps those that are damaged under other names. The own
// files for all objects must be durable.
func (l *Log) Remove() error {
	for _, path := range l.segments {
		var err error
		if i := slices.IndexFunc(l.damage, func(d Damage) bool { return d.File == path }); i >= 0 {
			err = l.fs.Rename(path, l.damage[i].Kept)
		} else {
			err = l.fs.Remove(path)
		}
		if err != nil {
			return err
		}
	}
	return l.fs.SyncDir(l.dir)
}
