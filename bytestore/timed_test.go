package bytestore_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"sluice/bytestore"
	"sluice/bytestore/memory"
	"sluice/test/testenv"
)

// slowStore takes a second for each call, and caches.
type slowStore struct {
	bytestore.Store
	opened      io.ReadCloser
	invalidated bytestore.Name
}

func (s *slowStore) Put(ctx context.Context, name bytestore.Name, src io.Reader, size int64) error {
	time.Sleep(time.Second)
	return s.Store.Put(ctx, name, src, size)
}

func (s *slowStore) Open(ctx context.Context, name bytestore.Name, off, n int64) (r io.ReadCloser, err error) {
	time.Sleep(time.Second)
	s.opened, err = s.Store.Open(ctx, name, off, n)
	return s.opened, err
}

func (s *slowStore) Delete(ctx context.Context, names ...bytestore.Name) error {
	time.Sleep(time.Second)
	return s.Store.Delete(ctx, names...)
}

func (s *slowStore) Invalidate(name bytestore.Name) { s.invalidated = name }

// slowSource takes an hour for each read.
type slowSource struct{ io.Reader }

func (s slowSource) Read(p []byte) (int, error) {
	time.Sleep(time.Hour)
	return s.Reader.Read(p)
}

// TestTimed checks which time is counted: not the time that a Put's source takes.
func TestTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowStore{Store: memory.New()}
		store := bytestore.Timed(slow)
		timer := &bytestore.Timer{Context: t.Context()}
		name := bytestore.NewName(time.Now())
		for i, call := range []func(ctx context.Context) error{
			func(ctx context.Context) error {
				return store.Put(ctx, name, slowSource{iotest.OneByteReader(strings.NewReader("abc"))}, 3)
			},
			func(ctx context.Context) error {
				r, err := store.Open(ctx, name, 0, 3)
				if err != nil {
					return err
				}
				testenv.Equal(t, r, slow.opened, "the reader, which can be sent without a copy")
				return r.Close()
			},
			func(ctx context.Context) error { return store.Delete(ctx, name) },
		} {
			ctx, cancel := context.WithCancel(timer)
			testenv.Check(t, call(ctx))
			cancel()
			testenv.Equal(t, timer.Spent(), time.Duration(i+1)*time.Second, "the time after %d calls", i+1)
		}
		if err := store.Delete(t.Context(), name); err != nil || timer.Spent() != 3*time.Second {
			t.Errorf("a call under another context: %v, %v", timer.Spent(), err)
		}
		store.(bytestore.Invalidator).Invalidate(name)
		testenv.Equal(t, slow.invalidated, name, "the name that is passed on")
		bytestore.Timed(memory.New()).(bytestore.Invalidator).Invalidate(name)
	})
}
