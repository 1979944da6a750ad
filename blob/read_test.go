package blob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/localfs"
	"sluice/bytestore/memory"
	"sluice/integrity"
	"sluice/metastore"
	"sluice/test/testenv"
)

// heldPiece is the most that a read may buffer for a client in addition to Options.ReadBuffers.
const heldPiece = 32 << 10

// newOverStore is newFixture over another byte store.
func newOverStore(t testing.TB, store bytestore.Store, opt blob.Options) *fixture {
	t.Helper()
	f := newFixture(t, opt)
	opt.ExtentSize = 2 << 20
	f.Service = blob.New(f.meta, store, opt)
	return f
}

// newOnFiles is newFixture over files. It returns their folder as well.
func newOnFiles(t testing.TB, opt blob.Options) (*fixture, string) {
	t.Helper()
	return newOnOpenFiles(t, opt, 0)
}

// newOnOpenFiles is newOnFiles with files that stay open.
func newOnOpenFiles(t testing.TB, opt blob.Options, files int) (*fixture, string) {
	t.Helper()
	dir := testenv.MemoryDir(t)
	store := testenv.Must(localfs.Open(dir, localfs.Options{OpenFiles: files}))(t)
	testenv.AtEnd(t, store.Close)
	if files > 0 {
		opt.OpenStored = store.OpenMedium
	}
	return newOverStore(t, store, opt), dir
}

// plain hides that a writer is an io.ReaderFrom.
type plain struct{ io.Writer }

// TestReadAnyRangeByEveryWay reads ranges in every way in which bytes can be sent.
func TestReadAnyRangeByEveryWay(t *testing.T) {
	t.Parallel()
	onFiles := func(ttl time.Duration, buffers int64) *fixture {
		f, _ := newOnFiles(t, blob.Options{VerifyTTL: ttl, ReadBuffers: buffers})
		return f
	}
	onOpenFiles, _ := newOnOpenFiles(t, blob.Options{VerifyTTL: time.Minute, ExtentSize: 1 << 20}, 2)
	ways := map[string]struct {
		f     *fixture
		plain bool
	}{
		"open files, sent":      {onOpenFiles, false},
		"files, sent":           {onFiles(time.Minute, 0), false},
		"files, sent unchecked": {onFiles(0, 0), false},
		"files, held":           {onFiles(time.Minute, 0), true},
		"files, read twice":     {onFiles(time.Minute, -1), true},
		"memory, held":          {newFixture(t, blob.Options{}), true},
		"memory, read twice":    {newFixture(t, blob.Options{ReadBuffers: -1}), true},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{heldPiece - 1, heldPiece, heldPiece + 1, 1 << 20, 1<<20 + heldPiece, 5<<20 + 7} {
				body := randomBytes(uint64(size), size)
				blobName := fmt.Sprint(size)
				way.f.put(t, blobName, body)
				c := way.f.open(t, blobName)
				rng := rand.New(rand.NewPCG(uint64(size), 2))
				for i := range 40 {
					off := rng.IntN(size)
					n := 1 + rng.IntN(size-off)
					if i%2 == 0 { // at the borders of pieces and blocks
						off -= off % heldPiece
						n = min(size-off, heldPiece*(1+rng.IntN(40)))
					}
					var out bytes.Buffer
					var w io.Writer = &out
					if way.plain {
						w = plain{w}
					}
					m, err := c.WriteRange(t.Context(), w, int64(off), int64(n))
					if err != nil || m != int64(n) || !bytes.Equal(out.Bytes(), body[off:off+n]) {
						t.Fatalf("%d+%d of %d: %d bytes, equal %t, %v", off, n, size, m, bytes.Equal(out.Bytes(), body[off:off+n]), err)
					}
				}
			}
		})
	}
}

// stalledWriter is a client that receives nothing until it is released. It reports how much it is
// first offered.
type stalledWriter struct {
	offered chan<- int
	letGo   <-chan struct{}
	once    sync.Once
}

func (w *stalledWriter) Write(p []byte) (int, error) {
	w.once.Do(func() { w.offered <- len(p) })
	<-w.letGo
	return len(p), nil
}

// TestStalledClientsUseLittleAndBlockNoOthers checks that stalled clients, however many, hold at
// most as many blocks as ReadBuffers permits, and pieces otherwise, and that other reads are
// served.
func TestStalledClientsUseLittleAndBlockNoOthers(t *testing.T) {
	const clients, size = 40, 3 << 20
	onFiles, _ := newOnFiles(t, blob.Options{ReadBuffers: 2 << 20})
	for name, tc := range map[string]struct {
		f    *fixture
		held int
	}{
		"memory":            {newFixture(t, blob.Options{ReadBuffers: 2 << 20}), 2},
		"memory, no blocks": {newFixture(t, blob.Options{ReadBuffers: -1}), 0},
		"files":             {onFiles, 2},
	} {
		t.Run(name, func(t *testing.T) {
			body := randomBytes(1, size)
			tc.f.put(t, "n", body)
			offered, letGo := make(chan int), make(chan struct{})
			var readers sync.WaitGroup
			for range clients {
				readers.Go(func() {
					c, err := tc.f.Open(t.Context(), "a", "n")
					if err != nil {
						t.Error(err)
						return
					}
					defer c.Close()
					n, err := c.WriteRange(t.Context(), &stalledWriter{offered: offered, letGo: letGo}, 0, size)
					if n != size || err != nil {
						t.Errorf("a client that had stalled: %d bytes, %v", n, err)
					}
				})
			}
			var sizes []int
			for range clients {
				sizes = append(sizes, <-offered)
			}
			slices.Sort(sizes)
			if most := sizes[clients-1-tc.held]; most > heldPiece {
				t.Errorf("%d clients are offered more than %d bytes in one call: %v", clients, heldPiece, sizes)
			}
			tc.f.wantRead(t, "n", 0, body, "during stalled clients")
			close(letGo)
			readers.Wait()
		})
	}
}

// meddler changes stored bytes when a response's first bytes are received.
type meddler struct {
	bytes.Buffer
	meddle func()
}

func (m *meddler) Write(p []byte) (int, error) {
	if m.Len() == 0 {
		m.meddle()
	}
	return m.Buffer.Write(p)
}

// TestChangeAfterTheCheckIsNotServed checks that bytes which change after their block was checked,
// and before they are sent, are not sent.
// Invariant 4.
func TestChangeAfterTheCheckIsNotServed(t *testing.T) {
	const size = 2 << 20
	body := randomBytes(1, size)
	onFiles, dir := newOnFiles(t, blob.Options{ReadBuffers: -1})
	inMemory := newFixture(t, blob.Options{ReadBuffers: -1})
	for name, tc := range map[string]struct {
		f       *fixture
		change  func()
		written int64
	}{
		// In the first block, after a piece was sent.
		"files": {onFiles, func() { damageFile(t, dir, 512<<10) }, 512 << 10},
		// In the second block: the memory store's readers never change, but the second reader is
		// opened after the change.
		"memory": {inMemory, func() {
			if err := inMemory.bytes.List(t.Context(), "", func(o bytestore.Object) error {
				defer damage(t, inMemory.bytes, o.Name)
				return io.EOF
			}); !errors.Is(err, io.EOF) {
				t.Error(err)
			}
		}, 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			tc.f.put(t, "n", body)
			c := tc.f.open(t, "n")
			out := &meddler{meddle: tc.change}
			n, err := c.WriteRange(t.Context(), plain{out}, 0, size)
			if !errors.Is(err, integrity.ErrCorrupt) || n != tc.written || !bytes.Equal(out.Bytes(), body[:n]) {
				t.Fatalf("%d bytes, %v; want the %d before the change and %v", n, err, tc.written, integrity.ErrCorrupt)
			}
			if got := tc.f.Stats().Damaged; got != 1 {
				t.Errorf("%d damaged reads are counted, want 1", got)
			}
		})
	}
}

// onlyFile returns the name of a folder's only object.
func onlyFile(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*", "*-*"))
	if err != nil || len(names) != 1 {
		t.Fatalf("objects %v, %v; want one", names, err)
	}
	return names[0]
}

// damageFile flips a bit in a folder's only object.
func damageFile(t *testing.T, dir string, off int64) {
	t.Helper()
	f := testenv.Must(os.OpenFile(onlyFile(t, dir), os.O_RDWR, 0))(t)
	var b [1]byte
	testenv.Must(f.ReadAt(b[:], off))(t)
	b[0] ^= 1
	testenv.Must(f.WriteAt(b[:], off))(t)
	testenv.OK(t, f.Close())
}

// stallingStore is a store that blocks the readers of one object until they are released. They are
// files if isFile is set.
type stallingStore struct {
	*memory.Store
	stalls          bytestore.Name // its readers stall
	isFile          bool
	opened, reading chan struct{}
	letGo           chan struct{}
}

func newStallingStore(isFile bool) *stallingStore {
	return &stallingStore{
		Store: memory.New(), isFile: isFile,
		opened: make(chan struct{}, 1000), reading: make(chan struct{}, 1000), letGo: make(chan struct{}),
	}
}

// stall blocks the readers of the only object.
func (s *stallingStore) stall(t *testing.T) {
	testenv.OK(t, s.List(t.Context(), "", func(o bytestore.Object) error { s.stalls = o.Name; return nil }))
}

func (s *stallingStore) Open(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	r, err := s.Store.Open(ctx, name, off, n)
	if err != nil || name != s.stalls {
		return r, err
	}
	s.opened <- struct{}{}
	stalling := &stallingReader{ReadCloser: r, s: s}
	if s.isFile {
		return stallingFile{stalling}, nil
	}
	return stalling, nil
}

type stallingReader struct {
	io.ReadCloser
	s    *stallingStore
	once sync.Once
}

func (r *stallingReader) Read(p []byte) (int, error) {
	r.once.Do(func() { r.s.reading <- struct{}{} })
	<-r.s.letGo
	return r.ReadCloser.Read(p)
}

// stallingFile looks like a file that can be sent without copying.
type stallingFile struct{ *stallingReader }

func (stallingFile) Seek(int64, int) (int64, error)        { return 0, errors.ErrUnsupported }
func (stallingFile) SyscallConn() (syscall.RawConn, error) { return nil, errors.ErrUnsupported }

// TestStalledStoreBlocksNoOthers checks that readers which get nothing from the store, however
// many, do not delay the readers of another object, whichever way of reading is used.
// Invariant 62.
func TestStalledStoreBlocksNoOthers(t *testing.T) {
	const stalled, size = 200, 1 << 20
	for _, buffers := range []int64{0, -1} {
		s := newStallingStore(false)
		f := newOverStore(t, s, blob.Options{ReadBuffers: buffers})
		f.put(t, "stalls", randomBytes(1, size))
		s.stall(t)
		other := randomBytes(2, 3*size)
		f.put(t, "flows", other)
		var readers sync.WaitGroup
		for range stalled {
			readers.Go(func() {
				c, err := f.Open(t.Context(), "a", "stalls")
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				if n, err := c.WriteRange(t.Context(), io.Discard, 0, size); n != size || err != nil {
					t.Errorf("%d bytes, %v", n, err)
				}
			})
		}
		for range stalled {
			<-s.reading
		}
		f.wantRead(t, "flows", 0, other, "during blocked readers")
		close(s.letGo)
		readers.Wait()
	}
}

// TestConcurrentFileReadsAreBounded checks that concurrent reads of files are limited, because each
// may block a thread, and that a read that waits ends with its context.
func TestConcurrentFileReadsAreBounded(t *testing.T) {
	const atOnce, size = 64, 1 << 20
	s := newStallingStore(true)
	f := newOverStore(t, s, blob.Options{})
	f.put(t, "n", randomBytes(1, size))
	s.stall(t)
	c := f.open(t, "n")
	var readers sync.WaitGroup
	for range atOnce {
		readers.Go(func() {
			if n, err := c.WriteRange(t.Context(), plain{io.Discard}, 0, size); n != size || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
		})
	}
	for range atOnce {
		<-s.opened
		<-s.reading
	}
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan error)
	go func() {
		_, err := c.WriteRange(ctx, plain{io.Discard}, 0, size)
		waits <- err
	}()
	<-s.opened
	cancel()
	testenv.Is(t, <-waits, context.Canceled, "a read whose context ended while it waited")
	if n := len(s.reading); n != 0 {
		t.Errorf("%d files more than %d are read concurrently", n, atOnce)
	}
	close(s.letGo)
	readers.Wait()
}

// flippingOnce damages the first byte that is read.
type flippingOnce struct {
	bytestore.Store
	done atomic.Bool
}

func (s *flippingOnce) Open(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	r, err := s.Store.Open(ctx, name, off, n)
	if err != nil || !s.done.CompareAndSwap(false, true) {
		return r, err
	}
	body, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		return nil, err
	}
	body[0] ^= 1
	return io.NopCloser(bytes.NewReader(body)), nil
}

// brokenStore is a store. Its readers fail with an error after some bytes.
type brokenStore struct {
	bytestore.Store
	after int64
	err   error
}

func (s *brokenStore) Open(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	if s.after < 0 {
		return nil, s.err
	}
	r, err := s.Store.Open(ctx, name, off, n)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(r, s.after), iotest.ErrReader(s.err)), r}, nil
}

// damagedRows is a metadata store that returns inline bodies that differ from the stored ones.
type damagedRows struct {
	blob.Metadata
	damage func(body []byte) []byte
}

func (m *damagedRows) Extents(ctx context.Context, id metastore.ContentID, from metastore.Position, limit int) ([]metastore.Extent, error) {
	extents, err := m.Metadata.Extents(ctx, id, from, limit)
	return m.damaged(extents), err
}

func (m *damagedRows) OpenBlob(ctx context.Context, account, name string) (metastore.Blob, []metastore.Extent, error) {
	b, extents, err := m.Metadata.OpenBlob(ctx, account, name)
	return b, m.damaged(slices.Clone(extents)), err
}

func (m *damagedRows) damaged(extents []metastore.Extent) []metastore.Extent {
	for i := range extents {
		if extents[i].Object == "" {
			extents[i].Body = m.damage(slices.Clone(extents[i].Body))
		}
	}
	return extents
}
