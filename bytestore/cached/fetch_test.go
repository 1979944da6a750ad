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
	"sluice/test/testenv"
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

// openGated opens a cache over an empty store, whose opens a gate blocks.
func openGated(t *testing.T, opt cached.Options) (*cached.Store, *watched, *gate) {
	t.Helper()
	inner, g := watch(), newGate()
	inner.before = func(ctx context.Context, _ bytestore.Name, _, _ int64) error { return g.wait(ctx) }
	return mustOpen(t, inner, testenv.MemoryDir(t), opt), inner, g
}

// runs fails the test unless this many opens wait.
func (g *gate) runs(t *testing.T, want int64) {
	t.Helper()
	testenv.Equal(t, g.waiting.Load(), want, "fetches that run")
}

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

// Invariant 86.
func TestOneFetchForConcurrentMisses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, inner, g := openGated(t, cached.Options{})
		name, data := put(t, s, 1, 5000)
		var readers []<-chan result
		for range 50 {
			readers = append(readers, start(t.Context(), s, name, 0, 5000))
		}
		synctest.Wait()
		g.runs(t, 1)
		g.open()
		for _, r := range readers {
			wantResult(t, <-r, data)
		}
		inner.opened(t, 1)
		if got := s.Stats(); got.Misses != 50 || got.Fetches != 1 || got.Hits != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// TestFetchContinuesForOtherReaders checks that a fetch continues for the other readers, even if
// the one that began it leaves, and ends after the last one.
func TestFetchContinuesForOtherReaders(t *testing.T) {
	for name, lastLeaves := range map[string]bool{"the last one stays": false, "the last one leaves": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, inner, g := openGated(t, cached.Options{})
				name, data := put(t, s, 1, 5000)
				ctx, leave := context.WithCancel(t.Context())
				first := start(ctx, s, name, 0, 5000)
				synctest.Wait()
				lastCtx, leaveLast := context.WithCancel(t.Context())
				defer leaveLast()
				last := start(lastCtx, s, name, 0, 5000)
				synctest.Wait()
				leave()
				wantErr(t, (<-first).err, context.Canceled)
				synctest.Wait()
				g.runs(t, 1)
				if lastLeaves {
					leaveLast()
					wantErr(t, (<-last).err, context.Canceled)
					synctest.Wait()
					g.runs(t, 0)
					return
				}
				g.open()
				wantResult(t, <-last, data)
				inner.opened(t, 1)
				testenv.Equal(t, g.left.Load(), 0, "fetches that were cancelled")
			})
		})
	}
}

func TestFetchEndsWhenNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, g := openGated(t, cached.Options{})
		name, data := put(t, s, 1, 8*mib)
		ctx, cancel := context.WithCancel(t.Context())
		leaver := start(ctx, s, name, 0, 8*mib)
		synctest.Wait()
		g.runs(t, 6) // the first, the last, and 4 prefetches
		cancel()
		wantErr(t, (<-leaver).err, context.Canceled)
		synctest.Wait()
		g.runs(t, 0)
		testenv.Equal(t, g.left.Load(), 6, "fetches that were cancelled")
		g.open()
		wantRead(t, s, name, data, 0, 8*mib) // which the cancellation must not affect
	})
}

// TestReadAheadGoesPastCachedBlocks checks that a cached block does not end the read-ahead.
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
		g.runs(t, 1) // for block 2, although block 1 is cached
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
			err := (<-r).err
			wantErr(t, err, errInner)
			if errors.Is(err, fs.ErrClosed) {
				t.Errorf("the failure of an open store: %v", err)
			}
		}
		inner.opened(t, 1)
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
	testenv.Equal(t, failed.Load(), 2, "fetches of block 2")
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
		noFiles(t, dir)
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
// Invariant 62.
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
		s, _, g := openGated(t, cached.Options{Fetches: 5})
		var readers []<-chan result
		var bodies [][]byte
		for i := range 10 {
			name, data := put(t, s, uint64(i), 3*mib)
			readers, bodies = append(readers, start(t.Context(), s, name, 0, 3*mib)), append(bodies, data)
		}
		synctest.Wait()
		g.runs(t, 5)
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
			r := testenv.Must(s.Open(t.Context(), name, 0, 10*mib))(t)
			open = append(open, r)
			synctest.Wait()
			g.runs(t, want)
		}
		for _, r := range open {
			wantErr(t, r.Close(), nil)
		}
		synctest.Wait()
		g.runs(t, 0)
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
		noFiles(t, dir)
		testenv.Equal(t, s.Stats().Bytes, 0, "bytes in the cache")
	})
}

// TestCloseEndsFetches checks that Close ends fetches, including those that wait for a slot.
func TestCloseEndsFetches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, g := openGated(t, cached.Options{Fetches: 1})
		name, _ := put(t, s, 1, 3*mib)
		reader := start(t.Context(), s, name, 0, 3*mib)
		synctest.Wait()
		wantErr(t, s.Close(), nil)
		got := <-reader
		wantErr(t, got.err, fs.ErrClosed)
		testenv.Equal(t, g.left.Load(), 1, "fetches that were cancelled")
	})
}
