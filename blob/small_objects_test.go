package blob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/memory"
	"sluice/integrity"
	"sluice/test/testenv"
)

// oftenRead is so often that it is all but certain that a small object is kept: it is not with a
// probability of 10^-17.
const oftenRead = 300

// newKeeping returns a Service over a store that counts its reads, with a cache of small objects
// and no inline contents.
func newKeeping(t *testing.T, opt blob.Options) (*fixture, *countingStore) {
	t.Helper()
	store := newCountingStore()
	opt.InlineSize = -1
	return newOverStore(t, store, opt), store
}

// readOften reads a blob until it is kept if it is small enough.
func (f *fixture) readOften(t *testing.T, name string, size int) {
	t.Helper()
	for range oftenRead {
		f.read(t, name, 0, int64(size))
	}
}

// TestSmallObjectsAreKept reads small objects often, and then at random. Those that are kept are
// not read from the store any more, and every range has its bytes.
func TestSmallObjectsAreKept(t *testing.T) {
	f, store := newKeeping(t, blob.Options{VerifyTTL: time.Minute, SmallObjects: 4 << 20})
	for size, kept := range map[int]bool{1: true, 17 << 10: true, 32 << 10: true, 32<<10 + 1: false, 1 << 20: false} {
		name, body := fmt.Sprint(size), randomBytes(uint64(size), size)
		f.put(t, name, body)
		f.readOften(t, name, size)
		store.forget()
		rng := rand.New(rand.NewPCG(uint64(size), 1))
		for range 100 {
			from := rng.IntN(size)
			to := from + 1 + rng.IntN(size-from)
			f.wantRead(t, name, int64(from), body[from:to], "bytes %d to %d of %d", from, to, size)
		}
		if _, read := store.forget(); (read == 0) != kept {
			t.Errorf("%d bytes of an object of %d were read from the store; kept: %t", read, size, kept)
		}
	}
	if s := f.Stats().Small; s.Hits < 3*100 || s.Misses < 3 || s.Bytes < 49<<10 {
		t.Errorf("the figures are %+v", s)
	}
}

// TestRarelyReadObjectsAreNotKept reads many objects once. Few are read whole to be kept.
func TestRarelyReadObjectsAreNotKept(t *testing.T) {
	f, store := newKeeping(t, blob.Options{VerifyTTL: time.Minute, SmallObjects: 64 << 20})
	const objects, size = 400, 1000
	for i := range objects {
		f.put(t, fmt.Sprint(i), randomBytes(uint64(i), size))
	}
	store.forget()
	for i := range objects {
		f.read(t, fmt.Sprint(i), 0, size)
	}
	if _, read := store.forget(); read != objects*size {
		t.Errorf("%d bytes were read from the store, want %d", read, objects*size)
	}
	if kept := f.Stats().Small.Bytes / size; kept > objects/3 {
		t.Errorf("about %d of %d objects are kept", kept, objects)
	}
}

// TestKeptObjectsAreCheckedAgain reads an object that is kept after VerifyTTL. It is read from the
// store then, and not sent any more if it is damaged there.
func TestKeptObjectsAreCheckedAgain(t *testing.T) {
	const size = 20 << 10
	f, store := newKeeping(t, blob.Options{VerifyTTL: time.Minute, SmallObjects: 4 << 20})
	body := randomBytes(1, size)
	f.put(t, "n", body)
	f.readOften(t, "n", size)
	f.clock.Advance(time.Minute)
	store.forget()
	f.wantRead(t, "n", 0, body, "after VerifyTTL")
	if most, read := store.forget(); most != 1 || read != size {
		t.Errorf("after VerifyTTL, %d bytes were read in %d requests", read, most)
	}
	f.wantRead(t, "n", 0, body, "after the check")
	if _, read := store.forget(); read != 0 {
		t.Errorf("after the check, %d bytes were read", read)
	}

	damaged := randomBytes(2, size)
	store.Store = &replacing{store.Store, damaged}
	f.wantRead(t, "n", 0, body, "a damaged object within VerifyTTL")
	f.clock.Advance(time.Minute)
	c := f.open(t, "n")
	for range oftenRead {
		n, err := c.WriteRange(t.Context(), io.Discard, 0, size)
		testenv.Is(t, err, integrity.ErrCorrupt, "a damaged object after VerifyTTL")
		testenv.Equal(t, n, 0, "bytes that were sent of it")
	}
	testenv.Equal(t, f.Stats().Small.Bytes, 0, "bytes that are kept of damaged objects")
}

// replacing is a store in which the bytes of every object are others.
type replacing struct {
	bytestore.Store
	body []byte
}

func (s *replacing) Open(context.Context, bytestore.Name, int64, int64) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(s.body)), nil
}

// TestNothingIsKeptUnchecked reads objects with a VerifyTTL of 0, which promises that each read
// checks what is stored.
func TestNothingIsKeptUnchecked(t *testing.T) {
	f, store := newKeeping(t, blob.Options{SmallObjects: 4 << 20})
	f.put(t, "n", randomBytes(1, 1000))
	store.forget()
	f.readOften(t, "n", 1000)
	if _, read := store.forget(); read != oftenRead*1000 {
		t.Errorf("%d bytes were read from the store, want %d", read, oftenRead*1000)
	}
}

// TestDeletedObjectsAreNotKept deletes blobs that are kept.
func TestDeletedObjectsAreNotKept(t *testing.T) {
	f, _ := newKeeping(t, blob.Options{VerifyTTL: time.Minute, SmallObjects: 4 << 20})
	for i := range 10 {
		name := fmt.Sprint(i)
		f.put(t, name, randomBytes(uint64(i), 10_000))
		f.readOften(t, name, 10_000)
	}
	if kept := f.Stats().Small.Bytes; kept < 100_000 {
		t.Errorf("%d bytes are kept, want 100000 or more", kept)
	}
	for i := range 10 {
		testenv.OK(t, f.Delete(t.Context(), "a", fmt.Sprint(i), nil))
	}
	testenv.Equal(t, f.Stats().Small.Bytes, 0, "bytes that are kept in the end")
}

// TestSlowClientsOfSmallObjects lets clients stall that receive objects which are kept. They hold
// as many bytes of them as the cache may have, and the other clients what they hold without it.
func TestSlowClientsOfSmallObjects(t *testing.T) {
	const size, objects, clients = 32 << 10, 16, 60
	store := newCountingStore()
	f := newOverStore(t, store, blob.Options{VerifyTTL: time.Minute, SmallObjects: objects * size, InlineSize: -1})
	f.put(t, "n", randomBytes(1, size))
	f.readOften(t, "n", size)
	store.forget()
	offered, letGo := make(chan int), make(chan struct{})
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			c, err := f.Open(t.Context(), "a", "n")
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			_, err = c.WriteRange(t.Context(), &stalledWriter{offered: offered, letGo: letGo}, 0, size)
			testenv.Check(t, err)
		})
	}
	for range clients {
		<-offered
	}
	if _, read := store.forget(); read != (clients-objects)*size {
		t.Errorf("%d bytes were read from the store for %d clients, want %d", read, clients, (clients-objects)*size)
	}
	close(letGo)
	all.Wait()
	f.read(t, "n", 0, size)
	if _, read := store.forget(); read != 0 {
		t.Errorf("after the slow clients have ended, %d bytes were read", read)
	}
}

// TestSmallObjectsRace reads, deletes and stores blobs at the same time. Every read has the bytes
// of one of the contents that the name has had.
func TestSmallObjectsRace(t *testing.T) {
	f := newOverStore(t, memory.New(), blob.Options{VerifyTTL: time.Minute, SmallObjects: 100_000, InlineSize: -1})
	const names, size = 8, 10_000
	store := func(name, seed int) {
		body := bytes.Repeat([]byte{byte(name), byte(seed)}, size/2)
		testenv.Check(t, testenv.Error(f.Put(t.Context(), to(fmt.Sprint(name)), bytes.NewReader(body), size)))
	}
	for name := range names {
		store(name, 0)
	}
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 1))
			for i := range 1000 {
				name := rng.IntN(names)
				if i%50 == 0 {
					store(name, i/50)
					continue
				}
				c, err := f.Open(t.Context(), "a", fmt.Sprint(name))
				if err != nil {
					t.Error(err)
					return
				}
				var out bytes.Buffer
				_, err = c.WriteRange(t.Context(), &out, 0, size)
				c.Close()
				if b := out.Bytes(); err != nil || len(b) != size || b[0] != byte(name) || !bytes.Equal(b, bytes.Repeat(b[:2], size/2)) {
					t.Errorf("blob %d has %d bytes, %v", name, len(b), err)
					return
				}
			}
		})
	}
	all.Wait()
	if kept := f.Stats().Small.Bytes; kept > 110_000 {
		t.Errorf("%d bytes are kept, above the bound", kept)
	}
}

// TestBytesThatWereNotCheckedAreNotSent reads objects once from a store that is no folder,
// and returns other bytes then. No such byte is sent within VerifyTTL either.
func TestBytesThatWereNotCheckedAreNotSent(t *testing.T) {
	f, store := newKeeping(t, blob.Options{VerifyTTL: time.Minute, SmallObjects: 4 << 20})
	const objects, size = 50, 1000
	for i := range objects {
		f.put(t, fmt.Sprint(i), randomBytes(uint64(i), size))
		f.read(t, fmt.Sprint(i), 0, size)
	}
	store.Store = &replacing{store.Store, randomBytes(1000, size)}
	damaged := 0
	for i := range objects {
		var out bytes.Buffer
		_, err := f.open(t, fmt.Sprint(i)).WriteRange(t.Context(), &out, 0, size)
		switch {
		case errors.Is(err, integrity.ErrCorrupt):
			damaged++
			testenv.Equal(t, out.Len(), 0, "bytes that were sent")
		case err != nil || !bytes.Equal(out.Bytes(), randomBytes(uint64(i), size)):
			t.Errorf("object %d: other bytes were sent, or %v", i, err)
		}
	}
	if damaged < objects/2 {
		t.Errorf("%d objects were found damaged", damaged)
	}
}
