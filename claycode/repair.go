package claycode

import (
	"fmt"
	"runtime"

	"github.com/klauspost/reedsolomon"
)

// RepairPlanes returns the planes that a chunk's repair reads from each helper, in ascending order:
// one in d-k+1.
func (c *Code) RepairPlanes(lost int) []int {
	x, y := lost%c.q, lost/c.q
	wanted := make([]int, 0, c.planes/c.q)
	for z := range c.planes {
		if z/c.weight(y)%c.q == x {
			wanted = append(wanted, z)
		}
	}
	return wanted
}

// Repair computes a lost chunk into chunk. helpers has n elements: d of them are a chunk's
// RepairPlanes, one after the other, and the rest is nil. The helpers must include every other
// chunk in the lost one's column, which has the same quotient by d-k+1.
func (c *Code) Repair(lost int, helpers [][]byte, chunk []byte) error {
	if lost < 0 || lost >= c.n {
		return fmt.Errorf("claycode: chunk %d of %d does not exist", lost, c.n)
	}
	if len(helpers) != c.n {
		return fmt.Errorf("claycode: %d elements are given for helpers, want %d", len(helpers), c.n)
	}
	size, err := c.planeOf(len(chunk), c.planes)
	if err != nil {
		return err
	}
	column, read := lost/c.q, c.planes/c.q
	var known, unknown []int
	for i, planes := range helpers {
		switch {
		case i == lost && planes != nil:
			return fmt.Errorf("claycode: the lost chunk %d cannot be a helper", lost)
		case planes != nil && len(planes) != read*size:
			return fmt.Errorf("claycode: helper %d has %d bytes, want %d", i, len(planes), read*size)
		case planes == nil && i != lost && i/c.q == column:
			return fmt.Errorf("claycode: chunk %d must be a helper of chunk %d", i, lost)
		case i/c.q == column || planes == nil:
			unknown = append(unknown, i)
		default:
			known = append(known, i)
		}
	}
	if len(known) != c.k {
		return fmt.Errorf("claycode: there are %d helpers, want %d", len(known)+c.q-1, c.d)
	}
	p := newPlan(c.geometry, c.field, known, unknown, column)
	b := &planes{chunks: make([][]byte, c.n), size: size, processors: runtime.GOMAXPROCS(0), at: make([][]int, c.n)}
	copy(b.chunks, helpers)
	wanted := c.RepairPlanes(lost)
	for _, i := range unknown {
		if i/c.q != column {
			b.chunks[i] = make([]byte, read*size)
			continue
		}
		// Chunk i's coded bytes lie where the lost chunk's planes follow from them.
		b.chunks[i], b.at[i] = chunk, make([]int, read)
		for j, z := range wanted {
			b.at[i][j] = z + (i-lost)*c.weight(column)
		}
	}
	b.run(p, &c.workers, func(group, from, to int) {
		for _, o := range p.order {
			for i := column * c.q; i < (column+1)*c.q; i++ {
				if i != lost {
					sent := helpers[i][(group+o)*size:]
					missing := b.plane(i, group+o, from, to)
					p.GalMulSliceXor(1, sent[from:to], missing)
					p.GalMulSlice(reedsolomon.Inv(gamma), missing, missing)
				}
			}
		}
	})
	return nil
}
