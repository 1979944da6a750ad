package commit

import (
	"bytes"
	"crypto/sha256"
	"iter"
	"math/bits"
)

// climb returns the node that is h levels above nodes, which it overwrites. Their height is base
// among the trees over samples; subtrees of zeros are known.
func climb(nodes []Root, base, h int) Root {
	for level := base; level < base+h; level++ {
		for i := 0; i < len(nodes); i += 2 {
			var right Root
			if i+1 < len(nodes) {
				right = nodes[i+1]
			}
			if level+1 < len(zeros) && nodes[i] == zeros[level] && right == zeros[level] {
				nodes[i/2] = zeros[level+1]
			} else {
				nodes[i/2] = node(nodes[i], right)
			}
		}
		nodes = nodes[:(len(nodes)+1)/2]
	}
	return nodes[0]
}

// heightOf returns how high a tree over so many leaves is.
func heightOf(leaves int64) int { return bits.Len64(uint64(leaves - 1)) }

// samplesOf returns the leaves for a chunk that begins with data and goes on with zeros.
func samplesOf(data []byte, leaves *[chunkSamples]Root) []Root {
	for i := range leaves {
		sample := data[min(i*SampleSize, len(data)):min((i+1)*SampleSize, len(data))]
		leaves[i] = hashSample(sample)
	}
	return leaves[:]
}

var zeroSample [SampleSize]byte

// hashSample returns the leaf for a sample that zeros fill up.
func hashSample(sample []byte) Root {
	if bytes.Equal(sample, zeroSample[:len(sample)]) {
		return zeros[0]
	}
	if len(sample) < SampleSize {
		var filled [SampleSize]byte
		copy(filled[:], sample)
		return sha256.Sum256(filled[:])
	}
	return sha256.Sum256(sample)
}

// span is a tree with the leaves [from, to) in a range.
type span struct {
	leaves   int64
	height   int
	from, to int64
	// The leaves [zero, data) are roots of zeros, which are base levels above samples.
	zero, data int64
	base       int
}

// place is where a node stands to the range.
type place int

const (
	above  place = iota // it has leaves inside
	inside              // it is a leaf inside
	beside              // it has none inside
	zero                // it has none inside, and they are known
	filler              // it only fills up its level
)

// place returns where the node of height h stands that is the i-th on its level.
func (s span) place(h int, i int64) place {
	first, after := i<<h, (i+1)<<h
	switch {
	case first >= s.leaves:
		return filler
	case first < s.to && after > s.from && h == 0:
		return inside
	case first < s.to && after > s.from:
		return above
	case first >= s.zero && after <= s.data:
		return zero
	default:
		return beside
	}
}

// hashes returns the nodes in the range's proof, from left to right, by their heights and indexes:
// the leaves inside unless they are samples, and the greatest subtrees beside it. A single leaf has
// none, as it is the root.
func (s span) hashes() iter.Seq2[int, int64] {
	return func(yield func(int, int64) bool) {
		if s.height > 0 {
			s.walk(s.height, 0, yield)
		}
	}
}

func (s span) walk(h int, i int64, yield func(int, int64) bool) bool {
	switch s.place(h, i) {
	case above:
		return s.walk(h-1, 2*i, yield) && s.walk(h-1, 2*i+1, yield)
	case inside:
		return s.base == 0 || yield(h, i)
	case beside:
		return yield(h, i)
	default:
		return true
	}
}

// fold returns the node of height h that is the i-th on its level, from the nodes inside and beside
// the range, which next returns from left to right.
func (s span) fold(h int, i int64, next func(p place) Root) Root {
	switch p := s.place(h, i); p {
	case above:
		left := s.fold(h-1, 2*i, next)
		return node(left, s.fold(h-1, 2*i+1, next))
	case zero:
		return zeros[s.base+h]
	case filler:
		return Root{}
	default:
		return next(p)
	}
}

// piece is a range's part in one chunk.
type piece struct {
	from, to int64 // its bytes in the blob
	start    int64 // where its chunk begins in the blob
	size     int64 // data in its chunk
	chunkset int64
	chunk    int  // in its chunkset
	first    bool // of its chunkset
	set      span // its chunkset's tree, with the whole range in it
	span     span // its chunk's tree
}

// pieces returns a range's pieces. The range consists of whole samples.
func pieces(size, from, to int64) iter.Seq[piece] {
	return func(yield func(piece) bool) {
		for at := from; at < to; {
			p := pieceAt(size, from, to, at)
			if !yield(p) {
				return
			}
			at = p.to
		}
	}
}

// whole reports whether the piece has all data of its chunk.
func (p piece) whole() bool { return p.to-p.from == p.size }

// pieceAt returns the piece that begins at a byte in a range.
func pieceAt(size, from, to, at int64) piece {
	set := at / ChunksetSize * ChunksetSize
	start := at / ChunkSize * ChunkSize
	p := piece{from: at, to: min(to, start+ChunkSize), start: start, size: min(size-start, ChunkSize), chunkset: set / ChunksetSize, chunk: int((start - set) / ChunkSize), first: at == max(from, set)}
	p.set = span{
		leaves: chunks, height: chunksetHeight, base: chunkHeight,
		from: (max(from, set) - set) / ChunkSize, to: ceiling(min(to-set, ChunksetSize), ChunkSize),
		zero: ceiling(size-set, ChunkSize), data: dataChunks,
	}
	p.span = span{
		leaves: chunkSamples, height: chunkHeight,
		from: (at - start) / SampleSize, to: ceiling(p.to-start, SampleSize),
		zero: ceiling(p.size, SampleSize), data: chunkSamples,
	}
	return p
}

// blobSpan returns the blob's tree, with the chunksets in a range.
func blobSpan(size, from, to int64) span {
	leaves := chunksetsOf(size)
	return span{leaves: leaves, height: heightOf(leaves), from: from / ChunksetSize, to: ceiling(to, ChunksetSize), zero: leaves, base: len(zeros)}
}

// chunksetsOf returns how many chunksets a blob has.
func chunksetsOf(size int64) int64 { return max(1, ceiling(size, ChunksetSize)) }

// ceiling returns a/b, rounded up.
func ceiling(a, b int64) int64 { return (a + b - 1) / b }
