package blob

import (
	"fmt"
	"testing"
	"time"

	"sluice/internal/testenv"
	"sluice/metastore"
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
