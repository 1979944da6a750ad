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
	"sluice/test/vfstest"
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

// without returns a file system that reports success for operations with the given kinds and does
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

// put, open and list are calls of a store's methods.
type (
	put struct {
		m      *memory.Store
		ctx    context.Context
		object bytestore.Name
		src    io.Reader
		size   int64
	}
	open struct {
		m      *memory.Store
		ctx    context.Context
		object bytestore.Name
		off, n int64
	}
	list struct {
		m     *memory.Store
		ctx   context.Context
		after bytestore.Name
		fn    func(bytestore.Object) error
	}
)

// do does what a correct store does.
func (p put) do() error { return p.m.Put(p.ctx, p.object, p.src, p.size) }

// do does what a correct store does.
func (o open) do() (io.ReadCloser, error) { return o.m.Open(o.ctx, o.object, o.off, o.n) }

// do does what a correct store does.
func (l list) do() error { return l.m.List(l.ctx, l.after, l.fn) }

// broken is a store that violates one promise: some of the functions replace its methods.
type broken struct {
	m      *memory.Store
	put    func(put) error
	open   func(open) (io.ReadCloser, error)
	delete func(context.Context, *memory.Store, []bytestore.Name) error
	list   func(list) error
}

func (b *broken) Put(ctx context.Context, name bytestore.Name, src io.Reader, size int64) error {
	return b.put(put{b.m, ctx, name, src, size})
}

func (b *broken) Open(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	return b.open(open{b.m, ctx, name, off, n})
}

func (b *broken) Delete(ctx context.Context, names ...bytestore.Name) error {
	return b.delete(ctx, b.m, names)
}

func (b *broken) List(ctx context.Context, after bytestore.Name, fn func(bytestore.Object) error) error {
	return b.list(list{b.m, ctx, after, fn})
}

// breakMemory returns harnesses of memory stores broken by set.
func breakMemory(set func(b *broken)) func() bytetest.Harness {
	return func() bytetest.Harness {
		return overMemory(func(m *memory.Store) bytestore.Store {
			b := &broken{m: m, put: put.do, open: open.do, list: list.do}
			b.delete = func(ctx context.Context, m *memory.Store, names []bytestore.Name) error {
				return m.Delete(ctx, names...)
			}
			set(b)
			return b
		})
	}
}

func breakPut(fn func(put) error) func() bytetest.Harness {
	return breakMemory(func(b *broken) { b.put = fn })
}

func breakOpen(fn func(open) (io.ReadCloser, error)) func() bytetest.Harness {
	return breakMemory(func(b *broken) { b.open = fn })
}

func breakDelete(fn func(context.Context, *memory.Store, []bytestore.Name) error) func() bytetest.Harness {
	return breakMemory(func(b *broken) { b.delete = fn })
}

func breakList(fn func(list) error) func() bytetest.Harness {
	return breakMemory(func(b *broken) { b.list = fn })
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

// mutant is a store that violates one promise and fails its check.
type mutant struct {
	name  string
	check string
	make  func() bytetest.Harness
}

// TestBrokenStoresAreCaught checks that the suite detects violations.
// Invariant 10.
func TestBrokenStoresAreCaught(t *testing.T) {
	for _, m := range slices.Concat(brokenPuts, brokenReads, brokenDeletes, brokenDisks) {
		t.Run(m.name, func(t *testing.T) {
			caught := failures(t, m.make, func(name string) bool { return name == m.check })
			if caught[m.check] == nil {
				t.Errorf("check %q did not catch it; these did: %v", m.check, failures(t, m.make, everyCheck))
			}
		})
	}
}

// brokenPuts are memory stores with a wrong Put.
var brokenPuts = []mutant{
	{"drops a byte of large objects", "put every size", breakPut(func(p put) error {
		if p.size > 256<<10 {
			p.size--
			p.src = io.LimitReader(p.src, p.size)
		}
		return p.do()
	})},
	{"drops the last byte of objects of unknown size", "put every size, unknown", breakPut(func(p put) error {
		if p.size == bytestore.UnknownSize {
			data, err := io.ReadAll(p.src)
			if err != nil {
				return err
			}
			p.src = strings.NewReader(string(data[:max(0, len(data)-1)]))
		}
		return p.do()
	})},
	{"lets a later racer win as well", "put overtaken by another of its name", breakPut(func(p put) error {
		if r, err := p.m.Open(p.ctx, p.object, 0, 0); err == nil {
			return errors.Join(bytestore.ErrExists, r.Close())
		}
		// The check is much earlier than the write.
		staged := memory.New()
		if err := staged.Put(p.ctx, p.object, p.src, p.size); err != nil {
			return err
		}
		if err := p.m.Delete(p.ctx, p.object); err != nil {
			return err
		}
		return move(p.ctx, staged, p.m, p.object)
	})},
	{"calls a second put a success", "second put of a name", breakPut(func(p put) error {
		err := p.do()
		if errors.Is(err, bytestore.ErrExists) {
			return nil
		}
		return err
	})},
	{"takes a failing source for one that ends", "source fails half way, size unknown", breakPut(func(p put) error {
		return p.m.Put(p.ctx, p.object, swallow{p.src}, p.size)
	})},
	{"does not look beyond the promised size", "source continues for one byte", breakPut(func(p put) error {
		if p.size >= 0 {
			p.src = io.LimitReader(p.src, p.size)
		}
		return p.do()
	})},
	{"does not look at the context", "source is cancelled half way", breakPut(func(p put) error {
		return p.m.Put(context.WithoutCancel(p.ctx), p.object, p.src, p.size)
	})},
	{"keeps the bytes before a failure", "source is cut half way", breakPut(func(p put) error {
		got := &strings.Builder{}
		err := p.m.Put(p.ctx, p.object, io.TeeReader(p.src, got), p.size)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.Join(err, p.m.Put(p.ctx, p.object, strings.NewReader(got.String()), bytestore.UnknownSize))
		}
		return err
	})},
}

// brokenReads are memory stores with a wrong Open or List.
var brokenReads = []mutant{
	{"opens one byte off", "open every range", breakOpen(func(o open) (io.ReadCloser, error) {
		if o.off > 0 && o.n > 0 {
			o.off--
		}
		return o.do()
	})},
	{"opens beyond the end", "open beyond the end", breakOpen(func(o open) (io.ReadCloser, error) {
		r, err := o.do()
		if errors.Is(err, bytestore.ErrTruncated) {
			return io.NopCloser(strings.NewReader("")), nil
		}
		return r, err
	})},
	{"lists out of order", "list in order", breakList(func(l list) error {
		var all []bytestore.Object
		err := l.m.List(l.ctx, l.after, func(o bytestore.Object) error { all = append(all, o); return nil })
		if err != nil {
			return err
		}
		slices.SortStableFunc(all, func(a, b bytestore.Object) int { return len(a.Name) - len(b.Name) })
		for _, o := range all {
			if err := l.fn(o); err != nil {
				return err
			}
		}
		return nil
	})},
	{"lists the name it resumes at again", "list resumes at every position", breakList(func(l list) error {
		if l.after != "" {
			l.after = l.after[:len(l.after)-1]
		}
		return l.do()
	})},
	{"wraps the callback's error", "list returns the callback's error", breakList(func(l list) error {
		if err := l.do(); err != nil {
			return fmt.Errorf("list: %w", err)
		}
		return nil
	})},
	{"finds missing objects", "open a missing object", breakOpen(func(o open) (io.ReadCloser, error) {
		r, err := o.do()
		if errors.Is(err, bytestore.ErrNotFound) && o.n == 0 {
			return io.NopCloser(strings.NewReader("")), nil
		}
		return r, err
	})},
}

// brokenDeletes are memory stores with a wrong Delete.
var brokenDeletes = []mutant{
	{"deletes in one handle only", "delete", breakMemory(deletesInOneHandle)},
	{"deletes the first object only", "delete many", breakDelete(func(ctx context.Context, m *memory.Store, objects []bytestore.Name) error {
		return m.Delete(ctx, objects[:min(1, len(objects))]...)
	})},
	{"deletes no more than a thousand", "delete many", breakDelete(func(ctx context.Context, m *memory.Store, objects []bytestore.Name) error {
		return m.Delete(ctx, objects[:min(1000, len(objects))]...)
	})},
	{"stops at the first failure", "delete some", breakDelete(func(ctx context.Context, m *memory.Store, objects []bytestore.Name) error {
		for i, object := range objects {
			if err := m.Delete(ctx, object); err != nil {
				return bytestore.UndeletedOf(objects[i:], err)
			}
		}
		return nil
	})},
	{"does not report which objects are left", "delete some", breakDelete(func(ctx context.Context, m *memory.Store, objects []bytestore.Name) error {
		if err := m.Delete(ctx, objects...); err != nil {
			return fmt.Errorf("delete: %w", bytestore.ErrInvalidName)
		}
		return nil
	})},
	{"deletes nothing when one fails", "delete some", breakDelete(func(ctx context.Context, m *memory.Store, objects []bytestore.Name) error {
		for _, object := range objects {
			if !object.Valid() {
				return bytestore.Undeleted{object: bytestore.ErrInvalidName}
			}
		}
		return m.Delete(ctx, objects...)
	})},
	{"reads other bytes after a delete", "delete while reading", breakMemory(spoilsWhatIsDeleted)},
	{"knows no name that is hostile", "hostile names", breakDelete(func(ctx context.Context, m *memory.Store, objects []bytestore.Name) error {
		return m.Delete(ctx, slices.DeleteFunc(objects, func(object bytestore.Name) bool { return !object.Valid() })...)
	})},
}

// brokenDisks are correct stores over a file system that breaks a promise.
var brokenDisks = []mutant{
	{"acknowledges before the file's fsync", "crash after put", breakDisk(without(vfstest.KindSync))},
	{"loses the folder's entry", "crash after put", breakDisk(without(vfstest.KindSyncDir))},
	{"syncs no more after the shards were made", "crash after put", breakDisk(syncsOnce)},
	{"replaces on rename", "put overtaken by another of its name", breakDisk(replaces)},
	{"lists temporary files", "a put is invisible until it is whole", breakDisk(listsTemporary)},
}

// deletesInOneHandle hides objects that it should delete.
func deletesInOneHandle(b *broken) {
	var gone sync.Map
	b.delete = func(_ context.Context, _ *memory.Store, objects []bytestore.Name) error {
		return bytestore.DeleteEach(objects, func(object bytestore.Name) error {
			if !object.Valid() {
				return bytestore.ErrInvalidName
			}
			gone.Store(object, true)
			return nil
		})
	}
	b.put = func(p put) error {
		if _, hidden := gone.LoadAndDelete(p.object); hidden {
			if err := p.m.Delete(p.ctx, p.object); err != nil {
				return err
			}
		}
		return p.do()
	}
	b.open = func(o open) (io.ReadCloser, error) {
		if _, hidden := gone.Load(o.object); hidden {
			return nil, bytestore.ErrNotFound
		}
		return o.do()
	}
	b.list = func(l list) error {
		return l.m.List(l.ctx, l.after, func(o bytestore.Object) error {
			if _, hidden := gone.Load(o.Name); hidden {
				return nil
			}
			return l.fn(o)
		})
	}
}

// spoilsWhatIsDeleted changes a deleted object's bytes for its readers.
func spoilsWhatIsDeleted(b *broken) {
	var gone sync.Map
	b.delete = func(ctx context.Context, m *memory.Store, objects []bytestore.Name) error {
		for _, object := range objects {
			gone.Store(object, true)
		}
		return m.Delete(ctx, objects...)
	}
	b.open = func(o open) (io.ReadCloser, error) {
		r, err := o.do()
		if err != nil {
			return nil, err
		}
		return io.NopCloser(&spoiled{r, func() bool { _, is := gone.Load(o.object); return is }}), nil
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
