package commit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// MismatchError is the error for bytes that the root does not prove.
type MismatchError struct {
	From, To int64 // the blob's bytes that may be wrong
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("commit: the root does not prove the bytes from %d to %d", e.From, e.To)
}

// Reader returns the bytes in a range that a Prover wrote, after it has verified them. Its memory
// is 1 MiB and 64 bytes for each chunkset in the range.
type Reader struct {
	in             *bufio.Reader
	size, from, to int64
	// first and end are the range in whole samples, and at is where the next piece begins.
	first, end, at int64
	sets           []Root // the range's chunksets
	chunks         []Root // in the range, in the current chunkset
	buffer         []byte
	proven         []byte // not yet returned
	last           byte
	err            error
}

// NewReader returns a reader for the bytes [from, to) in a blob with the given root and size. It
// reads and verifies the blob's tree. Whoever gave the root must have given the size, too: the root
// alone proves a size only where ProvesSize reports it.
func NewReader(in io.Reader, root Root, size, from, to int64) (*Reader, error) {
	if err := checkRange(size, from, to); err != nil {
		return nil, err
	}
	r := &Reader{in: bufio.NewReaderSize(in, 64<<10), size: size, from: from, to: to}
	r.first, r.end = widened(size, from, to)
	r.at = r.first
	if size == 0 {
		if root != zeros[len(zeros)-1] {
			return nil, &MismatchError{}
		}
		return r, nil
	}
	var err error
	if r.sets, err = r.children(blobSpan(size, r.first, r.end), root, from, to); err != nil {
		return nil, err
	}
	return r, nil
}

// Read returns proven bytes. Its error is a MismatchError for any other, after all bytes before
// them were returned.
func (r *Reader) Read(p []byte) (int, error) {
	for len(r.proven) == 0 && r.err == nil {
		r.err = r.next()
	}
	if len(r.proven) == 0 {
		return 0, r.err
	}
	n := copy(p, r.proven)
	r.proven = r.proven[n:]
	return n, nil
}

// ProvesSize reports whether the root alone proves the blob's size, once Read has returned io.EOF.
// In general it does not: blobs that differ only in zeros at their ends, in the last chunkset, have
// the same root. It does for a range that ends with a blob of whole chunksets, if the last byte is
// not zero.
func (r *Reader) ProvesSize() bool {
	return errors.Is(r.err, io.EOF) && r.to == r.size && r.size%ChunksetSize == 0 && r.last != 0
}

// next verifies the next piece. Behind the last one, the input must end.
func (r *Reader) next() error {
	if r.at >= r.end {
		if _, err := r.in.ReadByte(); err != nil {
			return err
		}
		return &MismatchError{r.to, r.to}
	}
	p := pieceAt(r.size, r.first, r.end, r.at)
	if p.first {
		set := r.sets[p.chunkset-r.first/ChunksetSize]
		var err error
		if r.chunks, err = r.children(p.set, set, max(r.from, p.chunkset*ChunksetSize), min(r.to, (p.chunkset+1)*ChunksetSize)); err != nil {
			return err
		}
	}
	from, to := max(r.from, p.from), min(r.to, p.to)
	besides, err := r.hashes(p.span, from, to)
	if err != nil {
		return err
	}
	if r.buffer == nil {
		r.buffer = make([]byte, min(r.end-r.first, ChunkSize))
	}
	data := r.buffer[:p.to-p.from]
	if _, err := io.ReadFull(r.in, data); err != nil {
		return cut(err, from, to)
	}
	sample := 0
	root := p.span.fold(chunkHeight, 0, func(where place) Root {
		if where == beside {
			next := besides[0]
			besides = besides[1:]
			return next
		}
		at := sample
		sample += SampleSize
		return hashSample(data[at:min(sample, len(data))])
	})
	if root != r.chunks[int64(p.chunk)-p.set.from] {
		return &MismatchError{from, to}
	}
	r.proven, r.at = data[from-p.from:to-p.from], p.to
	r.last = r.proven[len(r.proven)-1]
	return nil
}

// children reads a tree's hashes, verifies them against its root, and returns the leaves in the
// range. They stand for the bytes [from, to).
func (r *Reader) children(s span, root Root, from, to int64) ([]Root, error) {
	if s.height == 0 {
		return []Root{root}, nil
	}
	hashes, err := r.hashes(s, from, to)
	if err != nil {
		return nil, err
	}
	var leaves []Root
	got := s.fold(s.height, 0, func(where place) Root {
		next := hashes[0]
		hashes = hashes[1:]
		if where == inside {
			leaves = append(leaves, next)
		}
		return next
	})
	if got != root {
		return nil, &MismatchError{from, to}
	}
	return leaves, nil
}

// hashes reads a tree's hashes. Memory is taken as they arrive, because the size may be stated by
// their source.
func (r *Reader) hashes(s span, from, to int64) (hashes []Root, err error) {
	for range s.hashes() {
		var next Root
		if _, err := io.ReadFull(r.in, next[:]); err != nil {
			return nil, cut(err, from, to)
		}
		hashes = append(hashes, next)
	}
	return hashes, nil
}

// cut returns the error for an input that ends within the bytes [from, to) or their proof.
func cut(err error, from, to int64) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("commit: bytes from %d to %d: %w", from, to, err)
}
