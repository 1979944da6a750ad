package commit

import (
	"fmt"
	"io"
	"slices"
)

// RangeSize returns how many bytes WriteRange writes for a blob's bytes [from, to).
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

// WriteRange writes the blob's bytes [from, to) with their proof. It reads the range from blob, and
// all bytes in a chunk that the range has partly. The commitment must be complete; whether it is
// right, only a Reader checks.
func (c *Commitment) WriteRange(w io.Writer, blob io.ReaderAt, from, to int64) error {
	if err := checkRange(c.Size, from, to); err != nil {
		return err
	}
	from, to = widened(c.Size, from, to)
	if err := writeHashes(w, blobSpan(c.Size, from, to), rootsOf(c.Chunksets)); err != nil {
		return err
	}
	bytes := make([]byte, min(c.Size, ChunkSize))
	leaves := new([chunkSamples]Root)
	for p := range pieces(c.Size, from, to) {
		if p.first {
			if err := writeHashes(w, p.set, c.Chunksets[p.chunkset].Chunks[:]); err != nil {
				return err
			}
		}
		start, data := p.from, bytes[:p.to-p.from]
		if !p.whole() {
			start, data = p.start, bytes[:p.size]
		}
		if n, err := blob.ReadAt(data, start); n < len(data) {
			return fmt.Errorf("commit: read %d bytes at %d: %w", len(data), start, err)
		}
		if !p.whole() {
			if err := writeHashes(w, p.span, samplesOf(data, leaves)); err != nil {
				return err
			}
		}
		if _, err := w.Write(data[p.from-start : p.to-start]); err != nil {
			return err
		}
	}
	return nil
}

// writeHashes writes a proof's hashes.
func writeHashes(w io.Writer, s span, leaves []Root) error {
	for h, i := range s.hashes() {
		root := climb(slices.Clone(leaves[i<<h:min((i+1)<<h, s.leaves)]), s.base, h)
		if _, err := w.Write(root[:]); err != nil {
			return err
		}
	}
	return nil
}
