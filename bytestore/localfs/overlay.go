package localfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"sluice/bytestore"
	"sluice/bytestore/localfs/internal/journal"
)

// overlay has the objects in a journal that a process left behind when it or the machine ended. A
// Reader may be the first to look at the folder since, and their files may be damaged or missing
// until the next Store opens it.
type overlay struct {
	log     *journal.Log
	objects map[bytestore.Name]journal.Object
}

func newOverlay(log *journal.Log) *overlay {
	o := &overlay{log, map[bytestore.Name]journal.Object{}}
	for _, object := range log.Objects() {
		o.objects[bytestore.Name(object.Name)] = object
	}
	return o
}

// open opens an object in the journal. It returns nil if it is not there, or no longer: then its
// own file is durable. A nil *overlay has no objects.
func (o *overlay) open(name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	if o == nil {
		return nil, nil
	}
	object, ok := o.objects[name]
	switch {
	case !ok:
		return nil, nil
	case off < 0 || n < 0:
		return nil, errors.New("negative range")
	case off > object.Size || n > object.Size-off:
		return nil, fmt.Errorf("%w: %d bytes at %d of %d", bytestore.ErrTruncated, n, off, object.Size)
	}
	f, err := o.log.Open(object, off)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, contractError(err)
	}
	return &journaled{f, object.Size - off}, nil
}

// journaled reads an object in a journal, which is no file of its own.
type journaled struct {
	f    io.ReadCloser
	left int64
}

func (r *journaled) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	n, err := r.f.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	return n, err
}

func (r *journaled) Close() error { return r.f.Close() }

// still returns the overlay, or nil if the journal is gone: then each object has its own file. It
// must be called before a folder is listed, so that an object is in the overlay or in the folder.
func (o *overlay) still() (*overlay, error) {
	if o == nil {
		return nil, nil
	}
	there, err := o.log.Exists()
	if err != nil || !there {
		return nil, err
	}
	return o, nil
}

// merge returns a folder's entries with its objects in the journal, in place of the folder's files
// with their names.
func (o *overlay) merge(entries []fs.DirEntry, has func(bytestore.Name) bool) []fs.DirEntry {
	if o == nil {
		return entries
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		_, in := o.objects[bytestore.Name(e.Name())]
		return in
	})
	for name, object := range o.objects {
		if has(name) {
			entries = append(entries, journaledEntry{object})
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries
}

type journaledEntry struct{ object journal.Object }

func (e journaledEntry) Name() string               { return e.object.Name }
func (e journaledEntry) IsDir() bool                { return false }
func (e journaledEntry) Type() fs.FileMode          { return 0 }
func (e journaledEntry) Info() (fs.FileInfo, error) { return e, nil }
func (e journaledEntry) Size() int64                { return e.object.Size }
func (e journaledEntry) Mode() fs.FileMode          { return 0o600 }
func (e journaledEntry) ModTime() time.Time         { return time.Time{} }
func (e journaledEntry) Sys() any                   { return nil }
