package blob

import (
	"fmt"
	"testing"
	"time"

	"sluice/integrity"
	"sluice/metastore"
	"sluice/test/testenv"
)

// TestCheckLogCountsItsMemory compares the size that the log of checks counts with the memory that
// its extents take, of one block and of the longest.
func TestCheckLogCountsItsMemory(t *testing.T) {
	const extents = 20_000
	for _, blocks := range []int{1, 8, integrity.MaxBlocks} {
		t.Run(fmt.Sprint(blocks, " blocks"), func(t *testing.T) {
			l := newCheckLog(time.Hour, time.Now)
			before := testenv.Heap()
			for i := range extents {
				e := &metastore.Extent{Object: fmt.Sprintf("%026d", i), Blocks: make([]uint32, blocks)}
				l.note(l.of(e), int64(blocks-1))
			}
			l.extents.CleanUp()
			took, counted := testenv.Heap()-before, int64(l.extents.WeightedSize())
			t.Logf("an extent takes %d bytes, and %d are counted", took/extents, counted/extents)
			if ratio := float64(took) / float64(counted); ratio < 0.8 || ratio > 1.1 {
				t.Errorf("the log takes %d bytes, and %d are counted", took, counted)
			}
		})
	}
}

// TestCheckLogIsBounded notes checks of more extents than the log holds. Those that are evicted are
// to be checked again.
func TestCheckLogIsBounded(t *testing.T) {
	l := newCheckLog(time.Hour, time.Now)
	const extents = 400_000
	for i := range extents {
		e := &metastore.Extent{Object: fmt.Sprintf("%026d", i), Blocks: make([]uint32, 1)}
		l.note(l.of(e), 0)
	}
	l.extents.CleanUp()
	if size := l.extents.WeightedSize(); size > checkLogSize || size < checkLogSize*9/10 {
		t.Errorf("the log counts %d bytes, want about %d", size, int64(checkLogSize))
	}
	known := 0
	for i := range extents {
		e := &metastore.Extent{Object: fmt.Sprintf("%026d", i), Blocks: make([]uint32, 1)}
		if times, ok := l.extents.GetIfPresent(e.Object); ok && l.fresh(times, 0) {
			known++
		}
	}
	testenv.Equal(t, known, l.extents.EstimatedSize(), "blocks that need no check")
}

// TestCheckLogOfADamagedRow looks up an extent for which two rows say different lengths.
func TestCheckLogOfADamagedRow(t *testing.T) {
	l := newCheckLog(time.Hour, time.Now)
	l.note(l.of(&metastore.Extent{Object: "object", Blocks: make([]uint32, 1)}), 0)
	times := l.of(&metastore.Extent{Object: "object", Blocks: make([]uint32, 3)})
	testenv.Equal(t, len(times), 3, "times")
	if l.fresh(times, 0) {
		t.Error("a block of the damaged row is taken for checked")
	}
}
