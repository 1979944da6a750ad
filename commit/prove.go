package commit

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// RangeSize returns how many bytes a Prover writes for a blob's bytes [from, to).
func RangeSize(size, from, to int64) (int64, error) {
	if err := checkRange(size, from, to); err != nil {
		return 0, err
	}
	from, to = widened(size, from, to)
	hashes := int64(0)
	for range blobSpan(size, from, to).hashes() {
		hashes++
	}
	for p := range pieces(size, from, to) {
		if p.first {
			for range p.set.hashes() {
				hashes++
			}
		}
		for range p.span.hashes() {
			hashes++
		}
	}
	return hashes*int64(len(Root{})) + to - from, nil
}

// maxSize is far above any blob's size: sums with it do not overflow.
const maxSize = 1 << 60

// checkRange returns an error for a range that a blob does not have. Only an empty blob has an
// empty range.
func checkRange(size, from, to int64) error {
	if size < 0 || size > maxSize || from < 0 || to > size || from > to || from == to && size > 0 {
		return fmt.Errorf("commit: a blob of %d bytes has no bytes from %d to %d", size, from, to)
	}
	return nil
}

// widened returns a range with the whole of its samples.
func widened(size, from, to int64) (int64, int64) {
	return from / SampleSize * SampleSize, min(ceiling(to, SampleSize)*SampleSize, size)
}

// Prover writes a blob's range with its proof. It holds a chunk of 1 MiB, if the range has one
// partly.
type Prover struct {
	tree     *Tree
	out      io.Writer
	from, to int64  // in whole samples
	hashes   []byte // that are written before the next bytes
	piece    piece
	at       int64  // the next byte that is written to the Prover
	chunk    []byte // the piece's chunk up to at, if it is hashed
	chunks   []Root // the roots in the piece's chunkset
}

// Prove returns a Prover for the bytes [from, to), which writes to out. It returns ErrRows if the
// tree is damaged where the range begins.
func (t *Tree) Prove(out io.Writer, from, to int64) (*Prover, error) {
	if err := checkRange(t.Size, from, to); err != nil {
		return nil, err
	}
	p := &Prover{tree: t, out: out}
	p.from, p.to = widened(t.Size, from, to)
	s := blobSpan(t.Size, p.from, p.to)
	for h, i := range s.hashes() {
		root, err := t.node(h, i)
		if err != nil {
			return nil, err
		}
		p.hashes = append(p.hashes, root[:]...)
	}
	if t.Size == 0 {
		return p, nil
	}
	return p, p.begin(p.from)
}

// Needs returns the range of the blob's bytes that must be written to the Prover, in order.
func (p *Prover) Needs() (off, n int64) {
	off = p.from / ChunkSize * ChunkSize
	return off, min(ceiling(p.to, ChunkSize)*ChunkSize, p.tree.Size) - off
}

// begin begins the piece at a byte, and loads the roots of its chunkset's chunks.
func (p *Prover) begin(at int64) (err error) {
	p.piece = pieceAt(p.tree.Size, p.from, p.to, at)
	p.at, p.chunk = p.piece.start, p.chunk[:0]
	if p.tree.Size <= SmallSize || !p.piece.first {
		return nil
	}
	if p.chunks, err = p.tree.chunksOf(p.piece.chunkset); err == nil {
		p.hashes = appendHashes(p.hashes, p.piece.set, p.chunks)
	}
	return err
}

// Write takes the blob's bytes that Needs names. If the range has a chunk partly, and its bytes do
// not belong to the tree, Write returns ErrRows before it has written anything of the chunk.
func (p *Prover) Write(b []byte) (n int, err error) {
	for n < len(b) {
		if p.at == p.piece.start+p.piece.size {
			if p.piece.to == p.to {
				return n, errors.New("commit: more bytes than the range needs")
			}
			if err := p.begin(p.piece.to); err != nil {
				return n, err
			}
		}
		some := b[n:][:min(int64(len(b)-n), p.piece.start+p.piece.size-p.at)]
		if p.piece.whole() && p.tree.Size > SmallSize {
			err = p.send(some)
		} else {
			if p.chunk == nil {
				p.chunk = make([]byte, 0, min(p.tree.Size, ChunkSize))
			}
			if p.chunk = append(p.chunk, some...); int64(len(p.chunk)) == p.piece.size {
				err = p.prove()
			}
		}
		if err != nil {
			return n, err
		}
		n += len(some)
		p.at += int64(len(some))
	}
	return n, nil
}

// prove writes the current piece with its hashes, once its chunk is complete.
func (p *Prover) prove() error {
	leaves := samplesOf(p.chunk, new([chunkSamples]Root))
	root := climb(slices.Clone(leaves), 0, chunkHeight)
	if p.tree.Size <= SmallSize {
		set := emptyChunkset()
		set.Chunks[0] = root
		if node(climb(set.Chunks[:besideFirst], chunkHeight, besideHeight), p.tree.Beside) != p.tree.Root {
			return fmt.Errorf("%w: the root of %d bytes", ErrRows, p.tree.Size)
		}
		p.hashes = append(append(p.hashes, root[:]...), p.tree.Beside[:]...)
	} else if root != p.chunks[p.piece.chunk] {
		return fmt.Errorf("%w: the chunk at byte %d", ErrRows, p.piece.start)
	}
	p.hashes = appendHashes(p.hashes, p.piece.span, leaves)
	return p.send(p.chunk[p.piece.from-p.piece.start : p.piece.to-p.piece.start])
}

// send writes the waiting hashes and then data.
func (p *Prover) send(data []byte) error {
	if err := p.flush(); err != nil {
		return err
	}
	_, err := p.out.Write(data)
	return err
}

func (p *Prover) flush() error {
	if len(p.hashes) == 0 {
		return nil
	}
	_, err := p.out.Write(p.hashes)
	p.hashes = p.hashes[:0]
	return err
}

// appendHashes appends a proof's hashes.
func appendHashes(to []byte, s span, leaves []Root) []byte {
	for h, i := range s.hashes() {
		root := climb(slices.Clone(leaves[i<<h:min((i+1)<<h, s.leaves)]), s.base, h)
		to = append(to, root[:]...)
	}
	return to
}
