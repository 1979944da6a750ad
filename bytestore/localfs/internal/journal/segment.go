package journal

import (
	"bytes"
	"errors"
	"io"
	"math"
	"path/filepath"
	"strings"

	"sluice/internal/vfs"
)

// Object is an object in a segment.
type Object struct {
	Name string
	Size int64

	path   string
	offset int64 // of its bytes
}

// Damage is a part of a segment that was durable once, and that Read could not read.
type Damage struct {
	File   string // the segment's path
	Kept   string // its path after Remove
	Offset int64  // where the first damaged record begins
	Behind int    // whole records behind it
}

type segmentReader struct {
	path string
	f    vfs.File
	buf  []byte // MaxBody bytes, for a record's body

	objects []Object       // those that were removed have no name
	at      map[string]int // their indexes
	records int            // so far
	damage  *unread        // nil: everything could be read
	durable int            // the greatest number of durable records that a record behind damage has
}

// unread is the first record that is not whole, in a segment that has whole ones behind it.
type unread struct {
	Damage
	before int // records
}

// read reads all records. A record that is not whole is passed over by its own length if all
// headers up to its own are whole. Behind a damaged header, bytes that look like a record may be a
// part of an object's body.
func (s *segmentReader) read() error {
	for offset, chained := int64(0), true; ; {
		got, err := s.record(offset)
		if errors.Is(err, errEnd) || err == nil && !got.whole && !chained {
			next, findErr := s.find(offset + 1)
			if findErr != nil || next < 0 {
				return findErr
			}
			// It may have been read while it was written.
			got, err = s.record(offset)
			if errors.Is(err, errEnd) || err == nil && !got.whole {
				s.unread(offset)
				offset, chained = next, false
				continue
			}
		}
		if err != nil {
			return err
		}
		s.add(got, offset)
		offset += got.size()
	}
}

// unread notes a record that is not whole.
func (s *segmentReader) unread(offset int64) {
	if s.damage == nil {
		kept := filepath.Join(filepath.Dir(s.path), keptPrefix+strings.TrimPrefix(filepath.Base(s.path), prefix))
		s.damage = &unread{Damage{File: s.path, Kept: kept, Offset: offset}, s.records}
	}
}

// record reads the record at an offset. It is valid until the next call.
func (s *segmentReader) record(offset int64) (record, error) {
	return read(io.NewSectionReader(s.f, offset, math.MaxInt64-offset), s.buf)
}

// add adds a record's object, or marks the one that it removes.
func (s *segmentReader) add(r record, offset int64) {
	if !r.whole {
		s.unread(offset)
	} else if s.damage != nil {
		s.damage.Behind++
		s.durable = max(s.durable, r.durable)
	}
	s.records++
	switch {
	case r.kind == removed:
		if i, ok := s.at[r.name]; ok {
			s.objects[i].Name = ""
		}
	case r.kind == stored && r.whole:
		s.at[r.name] = len(s.objects)
		s.objects = append(s.objects, Object{r.name, int64(len(r.body)), s.path, offset + r.size() - int64(len(r.body))})
	}
}

// find returns where the first whole record begins that is not before from, or -1.
func (s *segmentReader) find(from int64) (int64, error) {
	chunk := make([]byte, 64<<10)
	for {
		n, err := s.f.ReadAt(chunk, from)
		if err != nil && !errors.Is(err, io.EOF) {
			return -1, err
		}
		for i := 0; ; i++ {
			next := bytes.Index(chunk[i:n], magic[:])
			if next < 0 {
				break
			}
			i += next
			r, err := s.record(from + int64(i))
			if err == nil && r.whole {
				return from + int64(i), nil
			}
			if err != nil && !errors.Is(err, errEnd) {
				return -1, err
			}
		}
		if err != nil {
			return -1, nil
		}
		from += int64(n - len(magic) + 1)
	}
}
