package blob_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/test/testenv"
)

// TestHeldGarbageIsKeptForBackups checks that a delete during a hold leaves the bytes, which are
// freed when the hold has ended, and that earlier garbage is freed meanwhile.
// Invariant 121.
func TestHeldGarbageIsKeptForBackups(t *testing.T) {
	f := newFixture(t, blob.Options{InlineSize: -1})
	for _, name := range []string{"before", "during", "later"} {
		f.put(t, name, []byte(name))
	}
	before := f.open(t, "before") // a reader keeps it until FreeGarbage
	testenv.OK(t, f.Delete(t.Context(), "a", "before", nil))
	f.clock.Advance(2 * time.Minute)
	testenv.Must(f.meta.HoldGarbage(t.Context(), "backup", time.Hour))(t)
	testenv.OK(t, f.Delete(t.Context(), "a", "during", nil))
	before.Close()
	testenv.OK(t, f.FreeGarbage(t.Context()))
	f.wantObjects(t, 2, "while the backup is made")

	testenv.OK(t, f.meta.ReleaseGarbage(t.Context(), "backup"))
	testenv.OK(t, f.FreeGarbage(t.Context()))
	f.wantObjects(t, 1, "after the backup")
	testenv.OK(t, f.Delete(t.Context(), "a", "later", nil))
	f.wantObjects(t, 0, "after a delete without a backup")
}

// TestHeldGarbageIsFreedOnAFullDisk checks that a hold ends where the space ends: a delete frees
// its own bytes before it returns, and a write that is refused makes Run free the rest.
// Invariant 121.
func TestHeldGarbageIsFreedOnAFullDisk(t *testing.T) {
	var full atomic.Bool
	inRun(t, func(f *fixture) *blob.Service {
		return blob.New(f.meta, f.bytes, blob.Options{InlineSize: -1, PurgeEvery: 1000 * time.Hour, Space: func(int64) error {
			if full.Load() {
				return bytestore.ErrNoSpace
			}
			return nil
		}})
	}, func(t *testing.T, f *fixture) {
		for _, name := range []string{"held", "freed", "kept"} {
			f.put(t, name, []byte(name))
		}
		testenv.Must(f.meta.HoldGarbage(t.Context(), "backup", time.Hour))(t)
		testenv.OK(t, f.Delete(t.Context(), "a", "held", nil))
		time.Sleep(time.Second) // until Run has looked at it
		f.wantObjects(t, 3, "while there is space")

		full.Store(true)
		_, err := f.Put(t.Context(), to("refused"), strings.NewReader("x"), 1)
		testenv.Is(t, err, bytestore.ErrNoSpace, "a write to a full disk")
		time.Sleep(time.Second)
		f.wantObjects(t, 2, "after a write was refused")
		testenv.OK(t, f.Delete(t.Context(), "a", "freed", nil))
		f.wantObjects(t, 1, "after a delete on a full disk")
	})
}

// TestHeldGarbageIsFreedForARefusedWrite checks that a hold also ends for a write that is larger
// than the space which is left, until the write fits, and that a write which can never fit ends
// none.
func TestHeldGarbageIsFreedForARefusedWrite(t *testing.T) {
	var free atomic.Int64
	f := newFixture(t, blob.Options{InlineSize: -1, Space: func(n int64) error {
		if n > free.Load() {
			return bytestore.ErrNoSpace
		}
		return nil
	}})
	free.Store(2 << 30)
	for i := range 3 {
		f.put(t, fmt.Sprint(i), []byte("content"))
	}
	refused := func(size int64) {
		t.Helper()
		_, err := f.Put(t.Context(), to("refused"), strings.NewReader("x"), size)
		testenv.Is(t, err, bytestore.ErrNoSpace, "a write that does not fit")
	}
	remove := func(name string, left int, when string) {
		t.Helper()
		testenv.OK(t, f.Delete(t.Context(), "a", name, nil))
		f.wantObjects(t, left, when)
	}
	testenv.Must(f.meta.HoldGarbage(t.Context(), "backup", time.Hour))(t)
	refused(5 << 30)
	remove("0", 3, "after a delete, when a write has been refused that is too large")
	free.Store(5)
	refused(6)
	remove("1", 2, "after a delete, when a write has been refused")
	free.Store(2 << 30)
	remove("2", 2, "after a delete, when that write fits")
}
