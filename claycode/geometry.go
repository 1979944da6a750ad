package claycode

import "fmt"

// maxPlanes bounds a code's tables.
const maxPlanes = 1 << 16

// geometry is a code's grid of chunks: t columns of q.
type geometry struct {
	n, k, d int
	q, t    int
	planes  int // of a chunk: q^t
}

func newGeometry(n, k, d int) (geometry, error) {
	if k < 1 || d <= k || n <= d || n > 256 {
		return geometry{}, fmt.Errorf("claycode: a code (n=%d, k=%d, d=%d) is not possible: 0 < k < d < n <= 256 must hold", n, k, d)
	}
	g := geometry{n: n, k: k, d: d, q: d - k + 1, planes: 1}
	if n%g.q != 0 {
		return geometry{}, fmt.Errorf("claycode: n=%d is not a multiple of d-k+1=%d", n, g.q)
	}
	g.t = n / g.q
	for range g.t {
		if g.planes *= g.q; g.planes > maxPlanes {
			return geometry{}, fmt.Errorf("claycode: a code (n=%d, k=%d, d=%d) has more than %d planes", n, k, d, maxPlanes)
		}
	}
	return g, nil
}

// weight returns the value of column y's digit in plane numbers.
func (g geometry) weight(y int) int {
	w := 1
	for range g.t - 1 - y {
		w *= g.q
	}
	return w
}
