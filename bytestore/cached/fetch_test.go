package cached_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"sluice/bytestore"
	"sluice/bytestore/cached"
	"sluice/internal/testenv"
)

// gate blocks opens in the underlying store until open is called or their context ends.
type gate struct {
	ch      chan struct{}
	waiting atomic.Int64
	left    atomic.Int64 // opens that were ended by their context
}

func newGate() *gate { return &gate{ch: make(chan struct{})} }

func (g *gate) open() { close(g.ch) }

func (g *gate) wait(ctx context.Context) error {
	g.waiting.Add(1)
	defer g.waiting.Add(-1)
	select {
	case <-g.ch:
		return nil
	case <-ctx.Done():
		g.left.Add(1)
		return ctx.Err()
	}
}

func (g *gate) before(ctx context.Context, _ bytestore.Name, _, _ int64) error { return g.wait(ctx) }

// result is what a read returned.
type result struct {
	data []byte
	err  error
}

// start reads in a goroutine.
func start(ctx context.Context, s bytestore.Store, name bytestore.Name, off, n int64) <-chan result {
	done := make(chan result, 1)
	go func() {
		data, err := read(ctx, s, name, off, n)
		done <- result{data, err}
	}()
	return done
}

func wantResult(t *testing.T, got result, want []byte) {
	t.Helper()
	if got.err != nil || !bytes.Equal(got.data, want) {
		t.Errorf("read %d bytes, want %d; %v", len(got.data), len(want), got.err)
	}
}

func TestOneFetchForConcurrentMisses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, g := watch(), newGate()
		inner.before = g.before
		s := mustOpen(t, inner, testenv.MemoryDir(t), cached.Options{})
		name, data := put(t, s, 1, 5000)
		var readers []<-chan result
		for range 50 {
			readers = append(readers, start(t.Context(), s, name, 0, 5000))
		}
		synctest.Wait()
		if n := g.waiting.Load(); n != 1 {
			t.Errorf("%d fetches for 50 readers of a block", n)
		}
		g.open()
		for _, r := range readers {
			wantResult(t, <-r, data)
		}
		if n := inner.opens.Load(); n != 1 {
			t.Errorf("%d opens of the inner store", n)
		}
		if got := s.Stats(); got.Misses != 50 || got.Fetches != 1 || got.Hits != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// TestFetchContinuesForOtherReaders checks that a fetch continues for the other readers, even if
// the one that began it leaves.
func TestFetchContinuesForOtherReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, g := watch(), newGate()
		inner.before = g.before
		s := mustOpen(t, inner, testenv.MemoryDir(t), cached.Options{})
		name, data := put(t, s, 1, 5000)
		ctx, cancel := context.WithCancel(t.Context())
		first := start(ctx, s, name, 0, 5000)
		synctest.Wait()
		second := start(t.Context(), s, name, 0, 5000)
		synctest.Wait()
		cancel()
		wantErr(t, (<-first).err, context.Canceled)
		g.open()
		wantResult(t, <-second, data)
		if n := inner.opens.Load(); n != 1 || g.left.Load() != 0 {
			t.Errorf("%d opens of the inner store, %d of them cancelled", n, g.left.Load())
		}
	})
}

func TestFetchEndsWhenNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, g := watch(), newGate()
		inner.before = g.before
		s := mustOpen(t, inner, testenv.MemoryDir(t), cached.Options{})
		name, data := put(t, s, 1, 8*mib)
		ctx, cancel := context.WithCancel(t.Context())
		leaver := start(ctx, s, name, 0, 8*mib)
		synctest.Wait()
		if n := g.waiting.Load(); n != 6 { // the first, the last, and 4 prefetches
			t.Errorf("%d fetches run", n)
		}
		cancel()
		wantErr(t, (<-leaver).err, context.Canceled)
		synctest.Wait()
		if g.waiting.Load() != 0 || g.left.Load() != 6 {
			t.Errorf("%d fetches still run, %d were cancelled", g.waiting.Load(), g.left.Load())
		}
		g.open()
		wantRead(t, s, name, data, 0, 8*mib) // which the cancellation must not affect
	})
}

// TestFetchEndsAfterItsLastReader checks that a fetch continues for the second of two readers, and
// ends with it.
func TestFetchEndsAfterItsLastReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, g := watch(), newGate()
		inner.before = g.before
		s := mustOpen(t, inner, testenv.MemoryDir(t), cached.Options{})
		name, _ := put(t, s, 1, 5000)
		var cancels []context.CancelFunc
		var readers []<-chan result
		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			cancels, readers = append(cancels, cancel), append(readers, start(ctx, s, name, 0, 5000))
			synctest.Wait()
		}
		for i, running := range []int64{1, 0} {
			cancels[i]()
			wantErr(t, (<-readers[i]).err, context.Canceled)
			synctest.Wait()
			if got := g.waiting.Load(); got != running {
				t.Errorf("%d fetches run after %d readers left, want %d", got, i+1, running)
			}
		}
	})
}

// TestFailedFetchIsNotOfAClosedStore checks that a fetch's failure is reported as a closed store
// only if the store is closed.
func TestFailedFetchIsNotOfAClosedStore(t *testing.T) {
	errInner := errors.New("the network is gone")
	inner := watch()
	inner.before = func(context.Context, bytestore.Name, int64, int64) error { return errInner }
	s := mustOpen(t, inner, testenv.MemoryDir(t), cached.Options{})
	name, _ := put(t, s, 1, 5000)
	if _, err := read(t.Context(), s, name, 0, 5000); !errors.Is(err, errInner) || errors.Is(err, fs.ErrClosed) {
		t.Errorf("error %v", err)
	}
}

// TestReadAheadGoesPastCachedBlocks checks that a cached block does not end what is fetched ahead.
func TestReadAheadGoesPastCachedBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, g := watch(), newGate()
		s := mustOpen(t, inner, testenv.MemoryDir(t), cached.Options{Fetches: 4, Ahead: 2})
		name, data := put(t, s, 1, 4*mib)
		wantRead(t, s, name, data, mib, 1) // a part of block 1 is no use for a reader of all of it
		wantRead(t, s, name, data, mib, mib)
		inner.before = func(ctx context.Context, _ bytestore.Name, off, _ int64) error {
			if off == 2*mib {
				return g.wait(ctx)
			}
			return nil
		}
		r, err := s.Open(t.Context(), name, 0, 4*mib)
		wantErr(t, err, nil)
		synctest.Wait()
		if g.waiting.Load() != 1 {
			t.Error("block 2 is not fetched ahead of block 0, because block 1 is cached")
		}
		wantErr(t, r.Close(), nil)
	})
}

func TestFailedFetchIsReportedAndNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errInner := errors.New("the network is gone")
		inner, g := watch(), newGate()
		inner.before = func(ctx context.Context, _ bytestore.Name, _, _ int64) error {
			return errors.Join(g.wait(ctx), errInner)
		}
		s := mustOpen(t, inner, testenv.MemoryDir(t), cached.Options{})
		name, data := put(t, s, 1, 5000)
		var readers []<-chan result
		for range 5 {
			readers = append(readers, start(t.Context(), s, name, 0, 5000))
		}
		synctest.Wait()
		g.open()
		for _, r := range readers {
			wantErr(t, (<-r).err, errInner)
		}
		if n := inner.opens.Load(); n != 1 {
			t.Errorf("%d opens of the inner store", n)
		}
		inner.before = nil
		wantRead(t, s, name, data, 0, 5000)
	})
}

// TestFailedReadAheadIsRetried checks that a prefetch's error is not reported to the reader that
// later needs the block.
func TestFailedReadAheadIsRetried(t *testing.T) {
	inner := watch()
	var failed atomic.Int64
	inner.before = func(_ context.Context, _ bytestore.Name, off, _ int64) error {
		if off == 2*mib && failed.Add(1) == 1 {
			return errors.New("once")
		}
		return nil
	}
	s := mustOpen(t, inner, testenv.MemoryDir(t), cached.Options{})
	name, data := put(t, s, 1, 5*mib)
	wantRead(t, s, name, data, 0, 5*mib)
	if failed.Load() != 2 {
		t.Errorf("block 2 was fetched %d times", failed.Load())
	}
}

// brokenReader ends or fails within a block.
type brokenReader struct {
	io.Reader
	err error
}

func (b brokenReader) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == nil {
		return n, nil
	}
	return n, b.err
}

func (b brokenReader) Close() error { return nil }

// breaks is a store. Its readers break off half way, with an error beside the last bytes.
type breaks struct {
	bytestore.Store
	err error
}

func (b breaks) Open(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	r, err := b.Store.Open(ctx, name, off, n)
	if err != nil {
		return nil, err
	}
	return brokenReader{iotest.DataErrReader(io.LimitReader(r, n/2)), b.err}, nil
}

func TestInterruptedFetchIsNotKept(t *testing.T) {
	for broken, want := range map[error]error{
		io.EOF:                   bytestore.ErrTruncated,
		io.ErrUnexpectedEOF:      io.ErrUnexpectedEOF,
		context.DeadlineExceeded: context.DeadlineExceeded,
	} {
		dir, inner := testenv.MemoryDir(t), watch()
		s := mustOpen(t, breaks{inner, broken}, dir, cached.Options{})
		object, _ := put(t, s, 1, 5000)
		_, err := s.Open(t.Context(), object, 0, 5000)
		if !errors.Is(err, want) || errors.Is(err, io.EOF) {
			t.Errorf("%v: %v", broken, err)
		}
		if names, _ := files(t, dir); len(names) != 0 {
			t.Errorf("%v: files in the cache: %q", broken, names)
		}
	}
}

func TestStalledFetchBlocksNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, g := watch(), newGate()
		s := mustOpen(t, inner, testenv.MemoryDir(t), cached.Options{})
		name, data := put(t, s, 1, 3*mib)
		other, otherData := put(t, s, 2, 3*mib)
		inner.before = func(ctx context.Context, k bytestore.Name, off, _ int64) error {
			if k == name && off == 0 {
				return g.wait(ctx)
			}
			return nil
		}
		stalled := start(t.Context(), s, name, 0, 1)
		synctest.Wait()
		wantRead(t, s, name, data, mib, 2*mib)
		wantRead(t, s, other, otherData, 0, 3*mib)
		g.open()
		wantResult(t, <-stalled, data[:1])
	})
}

// TestStalledFetchesBlockNoOthers checks that reads bypass the cache if the underlying store stalls
// for as many objects as are fetched concurrently.
func TestStalledFetchesBlockNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, g := watch(), newGate()
		s := mustOpen(t, inner, testenv.MemoryDir(t), cached.Options{Fetches: 3})
		stalls := map[bytestore.Name]bool{}
		inner.before = func(ctx context.Context, k bytestore.Name, _, _ int64) error {
			if stalls[k] {
				return g.wait(ctx)
			}
			return nil
		}
		var stalled []<-chan result
		var bodies [][]byte
		for i := range 3 {
			name, data := put(t, s, uint64(i), 5000)
			stalls[name] = true
			stalled, bodies = append(stalled, start(t.Context(), s, name, 0, 5000)), append(bodies, data)
			synctest.Wait() // none of them reads stalls while it is written
		}
		other, data := put(t, s, 9, 3*mib)
		wantRead(t, s, other, data, 0, 3*mib)
		if now := s.Stats(); now.Bypasses != 1 || now.Blocks != 0 {
			t.Errorf("%+v", now)
		}
		g.open()
		for i := range stalled {
			wantResult(t, <-stalled[i], bodies[i])
		}
		other, data = put(t, s, 10, 3*mib)
		wantRead(t, s, other, data, 0, 3*mib)
		if now := s.Stats(); now.Bypasses != 1 || now.Blocks != 6 {
			t.Errorf("when it stalls no more: %+v", now)
		}
	})
}

func TestConcurrentFetchesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, g := watch(), newGate()
		inner.before = g.before
		s := mustOpen(t, inner, testenv.MemoryDir(t), cached.Options{Fetches: 5})
		var readers []<-chan result
		var bodies [][]byte
		for i := range 10 {
			name, data := put(t, s, uint64(i), 3*mib)
			readers, bodies = append(readers, start(t.Context(), s, name, 0, 3*mib)), append(bodies, data)
		}
		synctest.Wait()
		if n := g.waiting.Load(); n != 5 {
			t.Errorf("%d fetches run, want 5", n)
		}
		g.open()
		for i, r := range readers {
			wantResult(t, <-r, bodies[i])
		}
	})
}

// TestReadAheadIsBounded checks that prefetches use at most half the slots for fetches.
func TestReadAheadIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, g := watch(), newGate()
		s := mustOpen(t, inner, testenv.MemoryDir(t), cached.Options{Fetches: 12, Ahead: 3})
		inner.before = func(ctx context.Context, _ bytestore.Name, off, _ int64) error {
			if off == 0 || off == 9*mib {
				return nil
			}
			return g.wait(ctx)
		}
		var open []io.ReadCloser
		for i, want := range []int64{3, 6, 6, 6} {
			name, _ := put(t, s, uint64(i), 10*mib)
			r, err := s.Open(t.Context(), name, 0, 10*mib)
			testenv.OK(t, err)
			open = append(open, r)
			synctest.Wait()
			if n := g.waiting.Load(); n != want {
				t.Errorf("%d readers: %d fetches ahead, want %d", i+1, n, want)
			}
		}
		for _, r := range open {
			wantErr(t, r.Close(), nil)
		}
		synctest.Wait()
		if g.waiting.Load() != 0 {
			t.Errorf("%d fetches run for readers that are closed", g.waiting.Load())
		}
	})
}

// TestDeleteDuringFetch checks that a fetch that began before the object was deleted is not cached.
func TestDeleteDuringFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, inner, g := testenv.MemoryDir(t), watch(), newGate()
		inner.after = func() { <-g.ch }
		s := mustOpen(t, inner, dir, cached.Options{})
		object, _ := put(t, s, 1, 5000)
		early := start(t.Context(), s, object, 0, 5000)
		synctest.Wait()
		wantErr(t, s.Delete(t.Context(), object), nil)
		_, err := s.Open(t.Context(), object, 0, 5000)
		wantErr(t, err, bytestore.ErrNotFound)
		g.open()
		wantErr(t, (<-early).err, bytestore.ErrNotFound)
		if names, _ := files(t, dir); len(names) != 0 || s.Stats().Bytes != 0 {
			t.Errorf("files in the cache: %q, %+v", names, s.Stats())
		}
	})
}

// TestCloseEndsFetches checks that Close ends fetches, including those that wait for a slot.
func TestCloseEndsFetches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, g := watch(), newGate()
		inner.before = g.before
		s := mustOpen(t, inner, testenv.MemoryDir(t), cached.Options{Fetches: 1})
		name, _ := put(t, s, 1, 3*mib)
		reader := start(t.Context(), s, name, 0, 3*mib)
		synctest.Wait()
		wantErr(t, s.Close(), nil)
		got := <-reader
		wantErr(t, got.err, fs.ErrClosed)
		if g.left.Load() != 1 {
			t.Errorf("%d fetches were cancelled", g.left.Load())
		}
	})
}
