package cached_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/bytestore"
	"sluice/bytestore/cached"
	"sluice/bytestore/memory"
	"sluice/test/testenv"
)

// TestMain checks that no goroutine outlives the tests.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const mib = 1 << 20

func newName() bytestore.Name { return bytestore.NewName(time.UnixMilli(1_700_000_000_000)) }

// content returns size pseudorandom bytes.
func content(seed uint64, size int) []byte {
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(data) // never fails
	return data
}

// watched is a store that counts the calls of Open and can delay them.
type watched struct {
	bytestore.Store
	opens atomic.Int64
	// before, if set, is called by each Open, which fails with its error.
	before func(ctx context.Context, name bytestore.Name, off, n int64) error
	// after, if set, is called by each Open that has found its object.
	after func()
}

func (w *watched) Open(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	w.opens.Add(1)
	if w.before != nil {
		if err := w.before(ctx, name, off, n); err != nil {
			return nil, err
		}
	}
	r, err := w.Store.Open(ctx, name, off, n)
	if err == nil && w.after != nil {
		w.after()
	}
	return r, err
}

// opened fails the test unless Open was called this many times.
func (w *watched) opened(t *testing.T, want int64) {
	t.Helper()
	testenv.Equal(t, w.opens.Load(), want, "opens of the inner store")
}

func watch() *watched { return &watched{Store: memory.New()} }

// mustOpen opens a cache, which is closed when the test ends.
func mustOpen(tb testing.TB, inner bytestore.Store, dir string, opt cached.Options) *cached.Store {
	tb.Helper()
	if opt.Size == 0 {
		opt.Size = 64 * mib
	}
	s := testenv.Must(cached.Open(inner, dir, opt))(tb)
	testenv.AtEnd(tb, s.Close)
	return s
}

// put stores size bytes under a new name.
func put(tb testing.TB, s bytestore.Store, seed uint64, size int) (bytestore.Name, []byte) {
	tb.Helper()
	name, data := newName(), content(seed, size)
	testenv.OK(tb, s.Put(tb.Context(), name, bytes.NewReader(data), int64(size)))
	return name, data
}

func read(ctx context.Context, s bytestore.Store, name bytestore.Name, off, n int64) ([]byte, error) {
	r, err := s.Open(ctx, name, off, n)
	if err != nil {
		return nil, err
	}
	data := make([]byte, n)
	_, err = io.ReadFull(r, data)
	return data, errors.Join(err, r.Close())
}

// wantRead reads a range from an object that holds data.
func wantRead(tb testing.TB, s bytestore.Store, name bytestore.Name, data []byte, off, n int) {
	tb.Helper()
	got := testenv.Must(read(tb.Context(), s, name, int64(off), int64(n)))(tb)
	if !bytes.Equal(got, data[off:off+n]) {
		tb.Fatalf("%d bytes at %d are wrong", n, off)
	}
}

func wantErr(tb testing.TB, err, want error) {
	tb.Helper()
	if !errors.Is(err, want) {
		tb.Fatalf("error %v, want %v", err, want)
	}
}

// files returns the blocks' files below dir, and their total size in bytes.
func files(tb testing.TB, dir string) (names []string, size int64) {
	tb.Helper()
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was evicted in the meantime
		}
		if err != nil || e.IsDir() || filepath.Dir(name) == dir {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			names, size = append(names, name), size+info.Size()
		}
		return err
	})
	testenv.OK(tb, err)
	return names, size
}

// noFiles fails the test if there is a block's file below dir.
func noFiles(t *testing.T, dir string) {
	t.Helper()
	if names, _ := files(t, dir); len(names) != 0 {
		t.Errorf("files in the cache: %q", names)
	}
}

// onlyFile returns the only block's file below dir.
func onlyFile(tb testing.TB, dir string) string {
	tb.Helper()
	names, _ := files(tb, dir)
	if len(names) != 1 {
		tb.Fatalf("files in the cache: %q, want one", names)
	}
	return names[0]
}

func mustRead(tb testing.TB, name string) []byte {
	tb.Helper()
	data := testenv.Must(os.ReadFile(name))(tb)
	return data
}

func mustWrite(tb testing.TB, name string, data []byte) {
	tb.Helper()
	testenv.OK(tb, os.WriteFile(name, data, 0o600))
}
