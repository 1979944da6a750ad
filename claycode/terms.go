package claycode

// Term is a parity plane's dependence on one data plane: with all other data zero, it is the data
// plane times a factor.
type Term struct {
	Chunk, Plane int // the parity plane
	factor       byte
	field        field
}

// Terms returns the parity planes that depend on a data chunk's plane. There are few of them, so
// the parity of a chunkset with a single plane of data is computed from them faster than by Encode.
func (c *Code) Terms(chunk, plane int) (terms []Term) {
	impulse := make([][]byte, c.n)
	for i := range impulse {
		impulse[i] = make([]byte, c.planes)
	}
	impulse[chunk][plane] = 1
	c.decode(c.encode, impulse, 1, 1)
	for i := c.k; i < c.n; i++ {
		for z, factor := range impulse[i] {
			if factor != 0 {
				terms = append(terms, Term{i, z, factor, c.field})
			}
		}
	}
	return terms
}

// Times sets parity to the term's factor times data, which is as long.
func (t Term) Times(data, parity []byte) { t.field.GalMulSlice(t.factor, data, parity) }
