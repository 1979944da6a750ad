package blob

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"sluice/bytestore"
	"sluice/bytestore/memory"
	"sluice/integrity"
	"sluice/metastore"
	"sluice/test/testenv"
)

// TestSmallObjectsCountTheirMemory compares the size that the cache of small objects counts with
// the memory that they take.
func TestSmallObjectsCountTheirMemory(t *testing.T) {
	const all = 64 << 20
	for _, size := range []int64{1, 100, 1000, 5000, 17 << 10, 24<<10 + 1, maxSmallObject} {
		t.Run(fmt.Sprint(size, " bytes"), func(t *testing.T) {
			o := newSmallObjects(2*all, newCheckLog(time.Hour, time.Now))
			n := min(20_000, all/size)
			before := testenv.Heap()
			for i := range n {
				o.keep(&metastore.Extent{Object: fmt.Sprintf("%026d", i), Size: size}, make([]byte, size))
			}
			o.kept.CleanUp()
			took, counted := testenv.Heap()-before, o.stats().Bytes
			t.Logf("an object takes %d bytes, and %d are counted", took/n, counted/n)
			if ratio := float64(took) / float64(counted); ratio < 0.8 || ratio > 1.1 {
				t.Errorf("the objects take %d bytes, and %d are counted", took, counted)
			}
		})
	}
}

// watchedSends is a client that looks at a cache while it receives.
type watchedSends struct {
	o    *smallObjects
	held int64
}

func (w *watchedSends) Write(p []byte) (int, error) {
	w.held = w.o.sending.Load()
	return len(p), nil
}

// TestOnlyHeldBytesAreCounted reads objects once. While one is sent, it counts against what clients
// hold if it is kept, and otherwise not.
func TestOnlyHeldBytesAreCounted(t *testing.T) {
	const size = 1000
	checks := newCheckLog(time.Hour, time.Now)
	o, store := newSmallObjects(1<<20, checks), memory.New()
	body := make([]byte, size)
	for i := range 200 {
		e := &metastore.Extent{Object: fmt.Sprintf("%032x", i), Size: size, Blocks: []uint32{integrity.Sum(body)}}
		testenv.OK(t, store.Put(t.Context(), bytestore.Name(e.Object), bytes.NewReader(body), size))
		w := &watchedSends{o: o}
		x := blockChecker{bytes: store, verified: checks, small: o, limits: newReadLimits(0), ahead: &lookahead{}, e: e, w: w, times: checks.of(e)}
		testenv.OK(t, testenv.Error(x.write(t.Context(), 0, size)))
		want := int64(0)
		if _, kept := o.kept.GetIfPresent(e.Object); kept {
			want = size
		}
		testenv.Equal(t, w.held, want, "bytes that are held while object %d is sent", i)
	}
	testenv.Equal(t, o.sending.Load(), 0, "bytes that are held in the end")
}
