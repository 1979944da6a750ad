package claycode

import "github.com/klauspost/reedsolomon"

// The coupling's constants: gamma, and 1 + gamma².
const (
	gamma   = 2
	squared = 5
)

// field is the arithmetic in the field with 256 elements.
type field struct {
	reedsolomon.LowLevel
	vectors bool // whether combine3 is used
}

// newField returns the arithmetic with the machine's fastest instructions, unless options exclude
// them.
func newField(options []reedsolomon.Option) (f field) {
	f.WithOptions(options...)
	f.vectors = hasCombine3 && len(options) == 0
	return f
}

// times returns a product.
func (f field) times(a, b byte) byte {
	product := []byte{b}
	f.GalMulSlice(a, product, product)
	return product[0]
}

// couple sets u to a·c + gamma·partner.
func (f field) couple(u []byte, a byte, c, partner []byte) {
	f.GalMulSlice(a, c, u)
	f.GalMulSliceXor(gamma, partner, u)
}

// uncouple computes the stored bytes of two partners from their coded bytes, in place. The first is
// (a + 2b)/5. The second is b plus twice the first.
func (f field) uncouple(a, b []byte) {
	f.GalMulSliceXor(gamma, b, a)
	f.GalMulSlice(reedsolomon.Inv(squared), a, a)
	f.GalMulSliceXor(gamma, a, b)
}

// combine sets out to the inputs' sum, each times its factor.
func (f field) combine(factors []byte, in [][]byte, out []byte) {
	f.GalMulSlice(factors[0], in[0], out)
	for j := 1; j < len(in); j++ {
		f.GalMulSliceXor(factors[j], in[j], out)
	}
}

// combineUnit is how many columns combine3 computes at a time.
const combineUnit = 128

// matrices returns factors as combine3 reads them: for each three rows, the three of each input
// together. The last row fills up the last three.
func (f field) matrices(rows [][]byte) (matrices []uint64) {
	for first := 0; first < len(rows); first += 3 {
		for j := range rows[0] {
			for r := first; r < first+3; r++ {
				matrices = append(matrices, f.matrix(rows[min(r, len(rows)-1)][j]))
			}
		}
	}
	return matrices
}

// matrix returns the matrix of bits that multiplies by a factor. Byte 7-i has the bits of the input
// on which bit i of the product depends.
func (f field) matrix(factor byte) (m uint64) {
	for j := range 8 {
		product := f.times(factor, 1<<j)
		for i := range 8 {
			m |= uint64(product>>i&1) << (8*(7-i) + j)
		}
	}
	return m
}

// lagrange returns the factors that a polynomial's values at known, as many as its coefficients,
// have in its value at a point.
func (f field) lagrange(known []int, point int) []byte {
	factors := make([]byte, len(known))
	for j, xj := range known {
		above, below := byte(1), byte(1)
		for _, xm := range known {
			if xm != xj {
				above = f.times(above, byte(point)^byte(xm))
				below = f.times(below, byte(xj)^byte(xm))
			}
		}
		factors[j] = f.times(above, reedsolomon.Inv(below))
	}
	return factors
}
