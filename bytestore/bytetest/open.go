package bytetest

import (
	"errors"
	"io"
	"math"

	"sluice/bytestore"
)

var openChecks = []Check{
	onStore("open every range", openRanges),
	onStore("open beyond the end", openBeyond),
	onStore("open a missing object", openMissing),
	onStore("several readers of one object", openSeveral),
}

func openRanges(p *probe) {
	for _, size := range []int64{0, 1, 2, 1000, 1 << 20, 2<<20 + 3} {
		name, data := newName(), content(uint64(size), int(size))
		p.put(name, data)
		edges := edgesOf(size)
		for _, from := range edges {
			for _, to := range edges {
				if to >= from {
					p.reads(name, from, data[from:to])
				}
			}
		}
	}
}

// edgesOf returns the offsets at which reading a range is most likely to be wrong.
func edgesOf(size int64) []int64 {
	var edges []int64
	for _, e := range []int64{0, 1, 2, size / 2, 1<<20 - 1, 1 << 20, 1<<20 + 1, size - 1, size} {
		if e >= 0 && e <= size {
			edges = append(edges, e)
		}
	}
	return edges
}

func openBeyond(p *probe) {
	for _, size := range []int64{0, 1, 1000} {
		name := newName()
		p.put(name, content(1, int(size)))
		for _, r := range [][2]int64{
			{0, size + 1}, {size, 1}, {size + 1, 0}, {size + 1, 1}, {size / 2, size - size/2 + 1},
			{0, math.MaxInt64}, {1, math.MaxInt64}, {math.MaxInt64, 0}, {math.MaxInt64, math.MaxInt64},
		} {
			p.opens(name, r[0], r[1], bytestore.ErrTruncated)
		}
	}
}

func openMissing(p *probe) {
	existing := newName()
	p.put(existing, content(1, 10))
	for _, name := range []bytestore.Name{
		newName(), "sluice-instance", "abc", existing[:len(existing)-1], existing + "0", existing[:3],
	} {
		p.opens(name, 0, 0, bytestore.ErrNotFound)
		p.opens(name, 0, 1, bytestore.ErrNotFound)
	}
}

// openSeveral reads one object alternately through two readers.
func openSeveral(p *probe) {
	name, data := newName(), content(1, 3000)
	p.put(name, data)
	readers := []io.ReadCloser{p.open(name, 0, 3000), p.open(name, 1000, 2000)}
	for i := range 2 {
		for j, r := range readers {
			var got [1000]byte
			_, err := io.ReadFull(r, got[:])
			p.ok(err, "read through reader %d", j)
			p.same(got[:], data[(i+j)*1000:][:1000], "reader %d", j)
		}
	}
	p.ok(errors.Join(readers[0].Close(), readers[1].Close()), "close")
}
