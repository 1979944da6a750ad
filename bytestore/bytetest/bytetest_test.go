package bytetest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice/bytestore"
	"sluice/bytestore/bytetest"
	"sluice/bytestore/localfs"
	"sluice/bytestore/memory"
	"sluice/internal/vfs"
	"sluice/internal/vfs/vfstest"
)

// overMemory returns a harness; open makes its handles from one memory store.
func overMemory(open func(*memory.Store) bytestore.Store) bytetest.Harness {
	m := memory.New()
	return bytetest.Harness{Open: func() (bytestore.Store, error) { return open(m), nil }}
}

// overCrash returns a harness of localfs stores on a file system that can crash. The store uses
// that file system as wrapped by wrap.
func overCrash(wrap func(vfs.FS) vfs.FS) bytetest.Harness {
	disk := vfstest.NewCrash()
	return bytetest.Harness{
		Open: func() (bytestore.Store, error) {
			return localfs.Open("/data", localfs.Options{FS: wrap(disk)})
		},
		Crash: func() error {
			disk = disk.Crash()
			return nil
		},
	}
}

// without returns a file system that reports success for operations of the given kinds and does
// nothing.
func without(kinds ...vfstest.Kind) func(vfs.FS) vfs.FS {
	return func(fsys vfs.FS) vfs.FS {
		return vfstest.Intercept(fsys, func(op *vfstest.Op, do func() error) error {
			if slices.Contains(kinds, op.Kind) {
				return nil
			}
			return do()
		})
	}
}

// failures runs the applicable checks that choose selects, and returns those that fail.
func failures(t *testing.T, newHarness func() bytetest.Harness, choose func(name string) bool) map[string]error {
	failed := map[string]error{}
	for _, c := range bytetest.Checks() {
		h := newHarness()
		if !choose(c.Name) || c.NeedsCrash && h.Crash == nil {
			continue
		}
		if err := c.Run(t.Context(), h); err != nil {
			failed[c.Name] = err
		}
	}
	return failed
}

func everyCheck(string) bool { return true }

func TestCorrectStoresPass(t *testing.T) {
	for name, newHarness := range map[string]func() bytetest.Harness{
		"memory":  func() bytetest.Harness { return overMemory(func(m *memory.Store) bytestore.Store { return m }) },
		"localfs": func() bytetest.Harness { return overCrash(without()) },
	} {
		t.Run(name, func(t *testing.T) {
			for check, err := range failures(t, newHarness, everyCheck) {
				t.Errorf("%s: %v", check, err)
			}
		})
	}
}

// broken is a store that violates one promise: each method that is set replaces the correct one.
type broken struct {
	bytestore.Store
	put    func(ctx context.Context, name bytestore.Name, src io.Reader, size int64) error
	open   func(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error)
	delete func(ctx context.Context, name bytestore.Name) error
	// deleteAll takes precedence over delete.
	deleteAll func(ctx context.Context, names []bytestore.Name) error
	list      func(ctx context.Context, after bytestore.Name, fn func(bytestore.Object) error) error
}

func (b *broken) Put(ctx context.Context, name bytestore.Name, src io.Reader, size int64) error {
	if b.put != nil {
		return b.put(ctx, name, src, size)
	}
	return b.Store.Put(ctx, name, src, size)
}

func (b *broken) Open(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	if b.open != nil {
		return b.open(ctx, name, off, n)
	}
	return b.Store.Open(ctx, name, off, n)
}

func (b *broken) Delete(ctx context.Context, names ...bytestore.Name) error {
	switch {
	case b.deleteAll != nil:
		return b.deleteAll(ctx, names)
	case b.delete != nil:
		return bytestore.DeleteEach(names, func(name bytestore.Name) error { return b.delete(ctx, name) })
	}
	return b.Store.Delete(ctx, names...)
}

func (b *broken) List(ctx context.Context, after bytestore.Name, fn func(bytestore.Object) error) error {
	if b.list != nil {
		return b.list(ctx, after, fn)
	}
	return b.Store.List(ctx, after, fn)
}

// breakMemory returns harnesses of memory stores broken by set.
func breakMemory(set func(m *memory.Store, b *broken)) func() bytetest.Harness {
	return func() bytetest.Harness {
		return overMemory(func(m *memory.Store) bytestore.Store {
			b := &broken{Store: m}
			set(m, b)
			return b
		})
	}
}

func breakDisk(wrap func(vfs.FS) vfs.FS) func() bytetest.Harness {
	return func() bytetest.Harness { return overCrash(wrap) }
}

// swallow is a reader that reports errors as its end.
type swallow struct{ src io.Reader }

func (r swallow) Read(p []byte) (int, error) {
	n, err := r.src.Read(p)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

// TestBrokenStoresAreCaught checks that the suite detects violations: each of these stores violates
// one promise and fails its check.
func TestBrokenStoresAreCaught(t *testing.T) {
	for _, mutant := range []struct {
		name  string
		check string
		make  func() bytetest.Harness
	}{
		{"drops a byte of large objects", "put every size", breakMemory(func(m *memory.Store, b *broken) {
			b.put = func(ctx context.Context, object bytestore.Name, src io.Reader, size int64) error {
				if size > 256<<10 {
					size--
					src = io.LimitReader(src, size)
				}
				return m.Put(ctx, object, src, size)
			}
		})},
		{"drops the last byte of objects of unknown size", "put every size, unknown", breakMemory(func(m *memory.Store, b *broken) {
			b.put = func(ctx context.Context, object bytestore.Name, src io.Reader, size int64) error {
				if size == bytestore.UnknownSize {
					data, err := io.ReadAll(src)
					if err != nil {
						return err
					}
					src = strings.NewReader(string(data[:max(0, len(data)-1)]))
				}
				return m.Put(ctx, object, src, size)
			}
		})},
		{"acknowledges before the file's fsync", "crash after put", breakDisk(without(vfstest.KindSync))},
		{"loses the folder's entry", "crash after put", breakDisk(without(vfstest.KindSyncDir))},
		{"syncs no more after the shards were made", "crash after put", breakDisk(syncsOnce)},
		{"lets a later racer win as well", "put overtaken by another of its name", breakMemory(func(m *memory.Store, b *broken) {
			b.put = func(ctx context.Context, object bytestore.Name, src io.Reader, size int64) error {
				if r, err := m.Open(ctx, object, 0, 0); err == nil {
					return errors.Join(bytestore.ErrExists, r.Close())
				}
				// The check is much earlier than the write.
				staged := memory.New()
				if err := staged.Put(ctx, object, src, size); err != nil {
					return err
				}
				if err := m.Delete(ctx, object); err != nil {
					return err
				}
				return move(ctx, staged, m, object)
			}
		})},
		{"replaces on rename", "put overtaken by another of its name", breakDisk(replaces)},
		{"calls a second put a success", "second put of a name", breakMemory(func(m *memory.Store, b *broken) {
			b.put = func(ctx context.Context, object bytestore.Name, src io.Reader, size int64) error {
				err := m.Put(ctx, object, src, size)
				if errors.Is(err, bytestore.ErrExists) {
					return nil
				}
				return err
			}
		})},
		{"opens one byte off", "open every range", breakMemory(func(m *memory.Store, b *broken) {
			b.open = func(ctx context.Context, object bytestore.Name, off, n int64) (io.ReadCloser, error) {
				if off > 0 && n > 0 {
					off--
				}
				return m.Open(ctx, object, off, n)
			}
		})},
		{"opens beyond the end", "open beyond the end", breakMemory(func(m *memory.Store, b *broken) {
			b.open = func(ctx context.Context, object bytestore.Name, off, n int64) (io.ReadCloser, error) {
				r, err := m.Open(ctx, object, off, n)
				if errors.Is(err, bytestore.ErrTruncated) {
					return io.NopCloser(strings.NewReader("")), nil
				}
				return r, err
			}
		})},
		{"takes a failing source for one that ends", "source fails half way, size unknown", breakMemory(func(m *memory.Store, b *broken) {
			b.put = func(ctx context.Context, object bytestore.Name, src io.Reader, size int64) error {
				return m.Put(ctx, object, swallow{src}, size)
			}
		})},
		{"does not look beyond the promised size", "source continues for one byte", breakMemory(func(m *memory.Store, b *broken) {
			b.put = func(ctx context.Context, object bytestore.Name, src io.Reader, size int64) error {
				if size >= 0 {
					src = io.LimitReader(src, size)
				}
				return m.Put(ctx, object, src, size)
			}
		})},
		{"does not look at the context", "source is cancelled half way", breakMemory(func(m *memory.Store, b *broken) {
			b.put = func(ctx context.Context, object bytestore.Name, src io.Reader, size int64) error {
				return m.Put(context.WithoutCancel(ctx), object, src, size)
			}
		})},
		{"keeps what came before a failure", "source is cut half way", breakMemory(func(m *memory.Store, b *broken) {
			b.put = func(ctx context.Context, object bytestore.Name, src io.Reader, size int64) error {
				got := &strings.Builder{}
				err := m.Put(ctx, object, io.TeeReader(src, got), size)
				if errors.Is(err, io.ErrUnexpectedEOF) {
					return errors.Join(err, m.Put(ctx, object, strings.NewReader(got.String()), bytestore.UnknownSize))
				}
				return err
			}
		})},
		{"lists out of order", "list in order", breakMemory(func(m *memory.Store, b *broken) {
			b.list = func(ctx context.Context, after bytestore.Name, fn func(bytestore.Object) error) error {
				var all []bytestore.Object
				err := m.List(ctx, after, func(o bytestore.Object) error { all = append(all, o); return nil })
				if err != nil {
					return err
				}
				slices.SortStableFunc(all, func(a, b bytestore.Object) int { return len(a.Name) - len(b.Name) })
				for _, o := range all {
					if err := fn(o); err != nil {
						return err
					}
				}
				return nil
			}
		})},
		{"lists the name it resumes at again", "list resumes at every position", breakMemory(func(m *memory.Store, b *broken) {
			b.list = func(ctx context.Context, after bytestore.Name, fn func(bytestore.Object) error) error {
				if after != "" {
					after = after[:len(after)-1]
				}
				return m.List(ctx, after, fn)
			}
		})},
		{"wraps the callback's error", "list returns the callback's error", breakMemory(func(m *memory.Store, b *broken) {
			b.list = func(ctx context.Context, after bytestore.Name, fn func(bytestore.Object) error) error {
				if err := m.List(ctx, after, fn); err != nil {
					return fmt.Errorf("list: %w", err)
				}
				return nil
			}
		})},
		{"lists temporary files", "a put is invisible until it is whole", breakDisk(listsTemporary)},
		{"deletes in one handle only", "delete", breakMemory(func(m *memory.Store, b *broken) {
			var gone sync.Map
			b.delete = func(_ context.Context, object bytestore.Name) error {
				if !object.Valid() {
					return bytestore.ErrInvalidName
				}
				gone.Store(object, true)
				return nil
			}
			b.put = func(ctx context.Context, object bytestore.Name, src io.Reader, size int64) error {
				if _, hidden := gone.LoadAndDelete(object); hidden {
					if err := m.Delete(ctx, object); err != nil {
						return err
					}
				}
				return m.Put(ctx, object, src, size)
			}
			b.open = func(ctx context.Context, object bytestore.Name, off, n int64) (io.ReadCloser, error) {
				if _, hidden := gone.Load(object); hidden {
					return nil, bytestore.ErrNotFound
				}
				return m.Open(ctx, object, off, n)
			}
			b.list = func(ctx context.Context, after bytestore.Name, fn func(bytestore.Object) error) error {
				return m.List(ctx, after, func(o bytestore.Object) error {
					if _, hidden := gone.Load(o.Name); hidden {
						return nil
					}
					return fn(o)
				})
			}
		})},
		{"deletes the first object only", "delete many", breakMemory(func(m *memory.Store, b *broken) {
			b.deleteAll = func(ctx context.Context, objects []bytestore.Name) error {
				return m.Delete(ctx, objects[:min(1, len(objects))]...)
			}
		})},
		{"deletes no more than a thousand", "delete many", breakMemory(func(m *memory.Store, b *broken) {
			b.deleteAll = func(ctx context.Context, objects []bytestore.Name) error {
				return m.Delete(ctx, objects[:min(1000, len(objects))]...)
			}
		})},
		{"stops at the first failure", "delete some", breakMemory(func(m *memory.Store, b *broken) {
			b.deleteAll = func(ctx context.Context, objects []bytestore.Name) error {
				for i, object := range objects {
					if err := m.Delete(ctx, object); err != nil {
						return bytestore.UndeletedOf(objects[i:], err)
					}
				}
				return nil
			}
		})},
		{"does not say which objects are left", "delete some", breakMemory(func(m *memory.Store, b *broken) {
			b.deleteAll = func(ctx context.Context, objects []bytestore.Name) error {
				if err := m.Delete(ctx, objects...); err != nil {
					return fmt.Errorf("delete: %w", bytestore.ErrInvalidName)
				}
				return nil
			}
		})},
		{"deletes nothing when one fails", "delete some", breakMemory(func(m *memory.Store, b *broken) {
			b.deleteAll = func(ctx context.Context, objects []bytestore.Name) error {
				for _, object := range objects {
					if !object.Valid() {
						return bytestore.Undeleted{object: bytestore.ErrInvalidName}
					}
				}
				return m.Delete(ctx, objects...)
			}
		})},
		{"reads other bytes after a delete", "delete while reading", breakMemory(func(m *memory.Store, b *broken) {
			var gone sync.Map
			b.delete = func(ctx context.Context, object bytestore.Name) error {
				gone.Store(object, true)
				return m.Delete(ctx, object)
			}
			b.open = func(ctx context.Context, object bytestore.Name, off, n int64) (io.ReadCloser, error) {
				r, err := m.Open(ctx, object, off, n)
				if err != nil {
					return nil, err
				}
				return io.NopCloser(&spoiled{r, func() bool { _, is := gone.Load(object); return is }}), nil
			}
		})},
		{"knows no name that is hostile", "hostile names", breakMemory(func(m *memory.Store, b *broken) {
			b.delete = func(ctx context.Context, object bytestore.Name) error {
				if !object.Valid() {
					return nil
				}
				return m.Delete(ctx, object)
			}
		})},
		{"finds missing objects", "open a missing object", breakMemory(func(m *memory.Store, b *broken) {
			b.open = func(ctx context.Context, object bytestore.Name, off, n int64) (io.ReadCloser, error) {
				r, err := m.Open(ctx, object, off, n)
				if errors.Is(err, bytestore.ErrNotFound) && n == 0 {
					return io.NopCloser(strings.NewReader("")), nil
				}
				return r, err
			}
		})},
	} {
		t.Run(mutant.name, func(t *testing.T) {
			caught := failures(t, mutant.make, func(name string) bool { return name == mutant.check })
			if caught[mutant.check] == nil {
				t.Errorf("check %q did not catch it; these did: %v", mutant.check, failures(t, mutant.make, everyCheck))
			}
		})
	}
}

// spoiled reads zeros once over returns true.
type spoiled struct {
	src  io.Reader
	over func() bool
}

func (r *spoiled) Read(p []byte) (int, error) {
	n, err := r.src.Read(p)
	if r.over() {
		clear(p[:n])
	}
	return n, err
}

// move moves an object to another store.
func move(ctx context.Context, from, to *memory.Store, name bytestore.Name) error {
	return from.List(ctx, "", func(o bytestore.Object) error {
		r, err := from.Open(ctx, name, 0, o.Size)
		if err != nil {
			return err
		}
		return errors.Join(to.Put(ctx, name, r, o.Size), r.Close())
	})
}

// syncsOnce returns a file system that syncs each folder only once, like a store that lets late
// callers share a running sync.
func syncsOnce(fsys vfs.FS) vfs.FS {
	var synced sync.Map
	return vfstest.Intercept(fsys, func(op *vfstest.Op, do func() error) error {
		if op.Kind != vfstest.KindSyncDir {
			return do()
		}
		if _, again := synced.LoadOrStore(op.Name, true); again {
			return nil
		}
		return do()
	})
}

// replaces returns a file system with a rename that replaces, like rename(2).
func replaces(fsys vfs.FS) vfs.FS {
	return vfstest.Intercept(fsys, func(op *vfstest.Op, do func() error) error {
		if op.Kind == vfstest.KindRename {
			if err := fsys.Remove(op.To); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return do()
	})
}

// listsTemporary returns a file system that shows temporary files under names that are valid names.
func listsTemporary(fsys vfs.FS) vfs.FS { return disguising{fsys} }

type disguising struct{ vfs.FS }

func (d disguising) ReadDir(dir string) ([]fs.DirEntry, error) {
	entries, err := d.FS.ReadDir(dir)
	for i, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			entries[i] = renamed{e, filepath.Base(dir) + "-000000000000-" + strings.Repeat("0", 32)}
		}
	}
	return entries, err
}

type renamed struct {
	fs.DirEntry
	name string
}

func (r renamed) Name() string { return r.name }
