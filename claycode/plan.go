package claycode

import "slices"

// noColumn is the argument of newPlan for whole chunks.
const noColumn = -1

// plan is the way from some chunks to the lost chunks' coded bytes. It depends on which chunks they
// are, not on their bytes. If a column is fixed, planes are numbered without its digit.
type plan struct {
	field
	q, fixed    int
	known, lost []int // the base code reads and computes their coded bytes
	isLost      []bool
	weights     []int    // of the columns' digits
	factors     [][]byte // that known coded bytes have in each lost one
	matrices    []uint64 // the factors for combine3, in threes; nil without it
	// The planes are in groups: a lost chunk's coded byte is used only in its group. The group that
	// begins at plane z has a plane z+o for each o in order, and they are computed in this order.
	groups, order []int
}

// newPlan returns the plan to compute lost chunks' coded bytes from known, which are k chunks.
// Chunks that are in neither are present.
func newPlan(g geometry, f field, known, lost []int, fixed int) *plan {
	p := &plan{field: f, q: g.q, fixed: fixed, known: known, lost: lost, isLost: make([]bool, g.n), weights: make([]int, g.t), groups: []int{0}, order: []int{0}}
	inGroup := make([]bool, g.t)
	for _, i := range lost {
		p.factors = append(p.factors, f.lagrange(known, i))
		p.isLost[i] = true
		inGroup[i/g.q] = true
	}
	if f.vectors {
		p.matrices = f.matrices(p.factors)
	}
	weight := 1
	for y := g.t - 1; y >= 0; y-- {
		if y == fixed {
			continue
		}
		p.weights[y] = weight
		if inGroup[y] {
			p.order = multiples(p.order, g.q, weight)
		} else {
			p.groups = multiples(p.groups, g.q, weight)
		}
		weight *= g.q
	}
	slices.SortStableFunc(p.order, func(a, b int) int { return p.named(a) - p.named(b) })
	return p
}

// multiples returns the sums of each number with 0, weight, ..., (q-1)·weight.
func multiples(numbers []int, q, weight int) (sums []int) {
	for digit := range q {
		for _, number := range numbers {
			sums = append(sums, number+digit*weight)
		}
	}
	return sums
}

// named returns how many lost chunks a plane's digits name.
func (p *plan) named(z int) (count int) {
	for _, i := range p.lost {
		if y := i / p.q; y != p.fixed && p.digit(z, y) == i%p.q {
			count++
		}
	}
	return count
}

func (p *plan) digit(z, y int) int { return z / p.weights[y] % p.q }

// partner returns chunk i's partner in plane z, and the partner's plane. A chunk that the plane's
// digit names has none: it is returned itself.
func (p *plan) partner(i, z int) (chunk, plane int) {
	x, y := i%p.q, i/p.q
	digit := p.digit(z, y)
	return i - x + digit, z + (x-digit)*p.weights[y]
}

// compute computes the lost chunks' coded bytes in a group, in the columns [from, to) of its
// planes.
func (p *plan) compute(b *planes, w *worker, group, from, to int) {
	for _, o := range p.order {
		z := group + o
		for j, i := range p.known {
			stored := b.plane(i, z, from, to)
			chunk, plane := p.partner(i, z)
			switch {
			case chunk == i:
				w.coded[j] = stored
				continue
			case p.isLost[chunk]:
				w.coded[j] = w.scratch(j, to-from)
				p.couple(w.coded[j], squared, stored, b.plane(chunk, plane, from, to))
			default:
				w.coded[j] = w.scratch(j, to-from)
				p.couple(w.coded[j], 1, stored, b.plane(chunk, plane, from, to))
			}
		}
		if p.matrices != nil && (to-from)%combineUnit == 0 {
			p.combineThrees(b, w, z, from, to)
			continue
		}
		for l, i := range p.lost {
			p.combine(p.factors[l], w.coded, b.plane(i, z, from, to))
		}
	}
}

// combineThrees computes the lost chunks' coded bytes in a plane, three chunks at a time. The last
// chunk can be computed more than once.
func (p *plan) combineThrees(b *planes, w *worker, z, from, to int) {
	last := len(p.lost) - 1
	for l := 0; l <= last; l += 3 {
		out := func(l int) *byte { return &b.plane(p.lost[min(l, last)], z, from, to)[0] }
		combine3(&p.matrices[l*len(p.known)], &w.coded[0], len(p.known), out(l), out(l+1), out(l+2), to-from)
	}
}

// uncouple replaces the lost chunks' coded bytes in a group by the stored ones.
func (p *plan) uncouple(b *planes, group, from, to int) {
	for _, i := range p.lost {
		for _, o := range p.order {
			chunk, plane := p.partner(i, group+o)
			switch {
			case chunk == i:
			case !p.isLost[chunk]:
				p.GalMulSliceXor(gamma, b.plane(chunk, plane, from, to), b.plane(i, group+o, from, to))
			case chunk > i:
				p.field.uncouple(b.plane(i, group+o, from, to), b.plane(chunk, plane, from, to))
			}
		}
	}
}
