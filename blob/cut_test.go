package blob_test

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/metastore"
	"sluice/test/testenv"
)

// pausing is a writer that blocks after n bytes until the test releases it.
type pausing struct {
	bytes.Buffer
	n      int
	paused chan struct{}
	goOn   chan struct{}
}

func newPausing(n int) *pausing {
	return &pausing{n: n, paused: make(chan struct{}), goOn: make(chan struct{})}
}

func (w *pausing) Write(p []byte) (int, error) {
	if w.n > 0 && w.Len()+len(p) > w.n {
		w.n = 0
		close(w.paused)
		<-w.goOn
	}
	return w.Buffer.Write(p)
}

// TestDeletedBlobOfManyExtentsIsReadToItsEnd reads a blob slowly that has more extents than a
// lookup returns and more than are freed together. The reader must get all of it, however the blob
// is removed during the read.
// Invariant 5.
func TestDeletedBlobOfManyExtentsIsReadToItsEnd(t *testing.T) {
	ctx := context.Background()
	body := randomBytes(1, 66<<20+1)
	for name, gone := range map[string]func(f *fixture) error{
		"deleted": func(f *fixture) error { return f.Delete(ctx, "a", "n", nil) },
		"replaced": func(f *fixture) error {
			_, err := f.Put(ctx, to("n"), bytes.NewReader(nil), 0)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, blob.Options{ExtentSize: 1 << 20})
			f.put(t, "n", body)
			c := testenv.Must(f.Open(ctx, "a", "n"))(t)
			w := newPausing(3 << 20)
			read := make(chan error, 1)
			go func() {
				_, err := c.WriteRange(ctx, w, 0, c.Size)
				read <- err
			}()
			<-w.paused
			testenv.OK(t, errors.Join(gone(f), f.FreeGarbage(ctx)))
			close(w.goOn)
			if err := <-read; err != nil || !bytes.Equal(w.Bytes(), body) {
				t.Errorf("%d of %d bytes, %v", w.Len(), len(body), err)
			}
			c.Close()
			testenv.OK(t, f.FreeGarbage(ctx))
			f.wantObjects(t, 0, "that stay behind")
		})
	}
}

// TestReadersOfGarbageAreCut checks that a reader retains a deleted content for 24 hours or until
// the store is out of space, and not longer.
func TestReadersOfGarbageAreCut(t *testing.T) {
	ctx := context.Background()
	full := false
	space := func(int64) error {
		if full {
			return bytestore.ErrNoSpace
		}
		return nil
	}
	for _, tc := range []struct {
		name string
		end  func(f *fixture)
	}{
		{"a day later", func(f *fixture) { f.clock.Advance(time.Second) }},
		{"without space", func(*fixture) { full = true }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			full = false
			f := newFixture(t, blob.Options{InlineSize: -1, Space: space})
			body := randomBytes(1, 5<<20)
			f.put(t, "n", body)
			f.put(t, "live", body)
			reads := map[string][]*blob.Content{}
			cuts := map[*blob.Content]int{}
			for _, name := range []string{"n", "n", "n", "live"} {
				c := testenv.Must(f.Open(ctx, "a", name))(t)
				c.OnCut(func() { cuts[c]++ })
				reads[name] = append(reads[name], c)
			}
			reads["n"][1].Close()
			f.clock.Advance(24 * time.Hour) // before the deletion, so it has no effect
			testenv.OK(t, errors.Join(f.Delete(ctx, "a", "n", nil), f.FreeGarbage(ctx)))
			f.clock.Advance(24*time.Hour - time.Second)
			testenv.OK(t, f.FreeGarbage(ctx))
			var out bytes.Buffer
			if _, err := reads["n"][0].WriteRange(ctx, &out, 0, int64(len(body))); err != nil || !bytes.Equal(out.Bytes(), body) || len(cuts) > 0 {
				t.Fatalf("too early: %d bytes, %v, %d cuts", out.Len(), err, len(cuts))
			}
			tc.end(f)
			for range 2 {
				testenv.OK(t, f.FreeGarbage(ctx))
			}
			for i, want := range []int{1, 0, 1} {
				c := reads["n"][i]
				testenv.Equal(t, cuts[c], want, "cuts of reader %d", i)
				if n, err := c.WriteRange(ctx, &out, 0, int64(len(body))); want > 0 && (n != 0 || !errors.Is(err, blob.ErrCut)) {
					t.Errorf("reader %d reads %d bytes, %v, want %v", i, n, err, blob.ErrCut)
				}
				late := 0
				c.OnCut(func() { late++ })
				testenv.Equal(t, late, want, "calls for a late reader %d", i)
				c.Close()
			}
			testenv.OK(t, f.FreeGarbage(ctx))
			f.wantObjects(t, 3, "(of the live blob)")
			_, err := reads["live"][0].WriteRange(ctx, &out, 0, int64(len(body)))
			testenv.Is(t, err, nil, "the reader of a live blob")
			reads["live"][0].Close()
		})
	}
}

// slowLookup is a store. Its next lookup pauses after the database has responded.
type slowLookup struct {
	blob.Metadata
	asked       atomic.Bool
	found, goOn chan struct{}
}

func (s *slowLookup) OpenBlob(ctx context.Context, account, name string) (metastore.Blob, []metastore.Extent, error) {
	b, extents, err := s.Metadata.OpenBlob(ctx, account, name)
	if s.asked.CompareAndSwap(false, true) {
		close(s.found)
		<-s.goOn
	}
	return b, extents, err
}

// TestStalledLookupDelaysNothing replaces and frees what a lookup has found while it waits, and
// opens other blobs. The lookup must then find what exists, never what was freed.
// Invariant 129.
func TestStalledLookupDelaysNothing(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t, blob.Options{InlineSize: -1})
	f.put(t, "n", []byte("old"))
	f.put(t, "other", []byte("other"))
	slow := &slowLookup{Metadata: f.meta, found: make(chan struct{}), goOn: make(chan struct{})}
	f.Service = blob.New(slow, f.bytes, blob.Options{InlineSize: -1})
	opened := make(chan string, 1)
	go func() {
		c, err := f.Open(ctx, "a", "n")
		if err != nil {
			opened <- err.Error()
			return
		}
		defer c.Close()
		var out bytes.Buffer
		if _, err := c.WriteRange(ctx, &out, 0, c.Size); err != nil {
			opened <- err.Error()
			return
		}
		opened <- out.String()
	}()
	<-slow.found
	meanwhile := make(chan error, 1)
	go func() {
		_, err := f.Put(ctx, to("n"), bytes.NewReader([]byte("new")), 3)
		err = errors.Join(err, f.FreeGarbage(ctx), f.Delete(ctx, "a", "other", nil))
		c, openErr := f.Open(ctx, "a", "n")
		if openErr == nil {
			c.Close()
		}
		meanwhile <- errors.Join(err, openErr)
	}()
	select {
	case err := <-meanwhile:
		testenv.Check(t, err)
		f.wantObjects(t, 1, "(the new blob's)")
	case <-time.After(time.Minute): // reached only if something waits for the lookup
		t.Error("frees and reads wait for a lookup in progress")
	}
	close(slow.goOn)
	if got := <-opened; got != "new" {
		t.Errorf("the stalled reader got %q", got)
	}
}
