// Package claycode implements Clay codes, which keep a blob readable when chunks of it are lost,
// and which repair a lost chunk from parts of its helpers.
//
// # The code for readers of no paper
//
// A code (n, k, d) adds n-k parity chunks to k data chunks, all equally large. Any k chunks restore
// all n, as with Reed-Solomon codes. With those, whoever repairs a single chunk reads k whole
// chunks. A Clay code asks d chunks, the helpers, for some planes of theirs. With (16, 10, 13),
// each of 13 helpers sends a quarter: 3.25 chunks in place of 10.
//
// Such a code is made from a Reed-Solomon code in three steps.
//
// The grid. With q = d-k+1 and n = q·t, chunk i stands in a grid at row x = i mod q of column y =
// i/q. Each chunk is cut into q^t equal planes. A plane's number z has t digits in base q, the most
// significant first, one for each column: digit z_y names a row in column y. So in each plane every
// column has one chunk that its digit names, and q-1 that it does not.
//
// The coupling. A stored byte C(i, z), of chunk i in plane z, has a coded byte U(i, z). If digit
// z_y names the chunk, they are equal. If not, the chunk has a partner: the chunk p in its column
// that the digit names, in the plane z' that is z with digit y set to x. The partner's partner is
// the chunk itself, and both coded bytes depend on both stored bytes, in the field of 256 elements
// with the polynomial x^8+x^4+x^3+x^2+1, where addition is XOR:
//
//	U(i, z)  = C(i, z) + 2·C(p, z')
//	U(p, z') = C(p, z') + 2·C(i, z)
//
// The base code. In each plane the n coded bytes are the values P(0), ..., P(n-1) of one polynomial
// with k coefficients. Any k values determine the rest, by Lagrange's formula.
//
// To restore lost chunks, Decode goes through the planes so that it always knows k coded bytes. It
// orders the planes by how many of their digits name a lost chunk. A chunk with a present partner
// has its coded byte from the first formula. If the partner is lost, its coded byte is
// known from an earlier plane: the one whose digit y names this chunk and not the lost one. The two
// formulas together then yield
//
//	U(i, z) = 5·C(i, z) + 2·U(p, z')
//
// At the end the formulas are inverted. Encode is Decode with the parity chunks as lost ones.
//
// To repair one chunk at (x, y), only planes with the digit z_y = x are read, one in q. In them,
// n-k coded bytes are unknown, in column y and in chunks that were not asked, and the base code
// computes them. The coded byte of another chunk in column y depends on two bytes: its own,
// which its helper sent, and the lost chunk's in a plane that was not read. Solving for the second
// one yields the lost chunk's other planes.
//
// The construction is from M. Vajha et al., "Clay Codes: Moulding MDS Codes to Yield an MSR Code",
// FAST '18. Digits, coupling and base code are as in the client @shelby-protocol/clay-codes 0.0.2,
// with which this package agrees in every bit.
package claycode

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/klauspost/reedsolomon"
)

// Code is a Clay code. Its methods may be called concurrently.
type Code struct {
	geometry
	field   field
	encode  *plan
	workers sync.Pool // of *worker
}

// New returns the Clay code with n chunks, k of them data, that repairs a chunk with d helpers. It
// fails unless k < d < n <= 256, n is a multiple of d-k+1, and chunks have at most 65,536 planes.
func New(n, k, d int) (*Code, error) {
	return newCode(n, k, d)
}

// newCode is New with options for the arithmetic.
func newCode(n, k, d int, options ...reedsolomon.Option) (*Code, error) {
	g, err := newGeometry(n, k, d)
	if err != nil {
		return nil, err
	}
	c := &Code{geometry: g, field: newField(options)}
	data, parity := make([]int, k), make([]int, n-k)
	for i := range data {
		data[i] = i
	}
	for i := range parity {
		parity[i] = k + i
	}
	c.encode = newPlan(g, c.field, data, parity, noColumn)
	c.workers.New = func() any { return newWorker(k) }
	return c, nil
}

// Planes returns how many planes a chunk has. Its size is a multiple of that.
func (c *Code) Planes() int { return c.planes }

// Encode computes the parity chunks, the last n-k of chunks, from the data chunks, which are the
// first k. All n have the same size.
func (c *Code) Encode(chunks [][]byte) error {
	return c.encodeBy(chunks, runtime.GOMAXPROCS(0))
}

// EncodeAlone is Encode on one processor.
func (c *Code) EncodeAlone(chunks [][]byte) error { return c.encodeBy(chunks, 1) }

func (c *Code) encodeBy(chunks [][]byte, processors int) error {
	size, err := c.sizeOf(chunks)
	if err != nil {
		return err
	}
	c.decode(c.encode, chunks, size, processors)
	return nil
}

// Decode computes the lost chunks, at most n-k, from the rest. All n have the same size; Decode
// overwrites the lost ones.
func (c *Code) Decode(chunks [][]byte, lost ...int) error {
	size, err := c.sizeOf(chunks)
	if err != nil {
		return err
	}
	isLost := make([]bool, c.n)
	for _, i := range lost {
		if i < 0 || i >= c.n || isLost[i] {
			return fmt.Errorf("claycode: lost chunk %d of %d is out of range or named twice", i, c.n)
		}
		isLost[i] = true
	}
	if len(lost) > c.n-c.k {
		return fmt.Errorf("claycode: %d chunks are lost, and at most %d can be restored", len(lost), c.n-c.k)
	}
	if len(lost) == 0 {
		return nil
	}
	var known []int
	for i := range c.n {
		if !isLost[i] && len(known) < c.k {
			known = append(known, i)
		}
	}
	c.decode(newPlan(c.geometry, c.field, known, lost, noColumn), chunks, size, runtime.GOMAXPROCS(0))
	return nil
}

// decode follows a plan on chunks with planes as large as size, on so many processors at most.
func (c *Code) decode(p *plan, chunks [][]byte, size, processors int) {
	b := &planes{chunks: chunks, size: size, processors: processors}
	b.run(p, &c.workers, func(group, from, to int) { p.uncouple(b, group, from, to) })
}

// sizeOf returns a plane's size, if chunks has n equally large chunks with whole planes.
func (c *Code) sizeOf(chunks [][]byte) (int, error) {
	if len(chunks) != c.n {
		return 0, fmt.Errorf("claycode: %d chunks were given, want %d", len(chunks), c.n)
	}
	for i, chunk := range chunks {
		if len(chunk) != len(chunks[0]) {
			return 0, fmt.Errorf("claycode: chunk %d has %d bytes, and chunk 0 has %d", i, len(chunk), len(chunks[0]))
		}
	}
	return c.planeOf(len(chunks[0]), c.planes)
}

// planeOf returns a plane's size, if size bytes are so many planes.
func (c *Code) planeOf(size, planes int) (int, error) {
	if size == 0 || size%planes != 0 {
		return 0, fmt.Errorf("claycode: %d bytes are no multiple of %d planes", size, planes)
	}
	return size / planes, nil
}
