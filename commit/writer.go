package commit

import (
	"errors"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"sluice/claycode"
)

// Writer computes the roots for the bytes that are written to it. Its zero value is ready. It holds
// one chunkset of 16 MiB and 544 bytes for each chunkset before, or 4 KiB for a blob that is not
// larger, and uses all processors while a chunkset is hashed, in Write.
type Writer struct {
	// Alone makes it use one processor.
	Alone bool

	plane     []byte  // the first bytes, before there is a buffer
	buffer    *buffer // nil between chunksets
	filled    int     // bytes of data in the buffer
	chunksets []Chunkset
}

// buffer is the memory for a chunkset.
type buffer struct {
	bytes  []byte
	chunks [][]byte
}

var buffers = sync.Pool{New: func() any {
	b := &buffer{bytes: make([]byte, chunks*ChunkSize)}
	b.chunks = slices.Collect(slices.Chunk(b.bytes, ChunkSize))
	return b
}}

var code = sync.OnceValue(func() *claycode.Code {
	c, err := claycode.New(chunks, dataChunks, helpers)
	if err != nil {
		panic(err) // the parameters are constants
	}
	return c
})

// free returns memory for data that is not filled yet.
func (w *Writer) free() []byte {
	if w.buffer == nil && w.filled < planeSize && len(w.chunksets) == 0 {
		if w.plane == nil {
			w.plane = make([]byte, planeSize)
		}
		return w.plane[w.filled:]
	}
	if w.buffer == nil {
		w.buffer = buffers.Get().(*buffer)
		copy(w.buffer.bytes, w.plane[:w.filled])
	}
	return w.buffer.bytes[w.filled:ChunksetSize]
}

// take takes over n bytes that were put into free.
func (w *Writer) take(n int) {
	if w.filled += n; w.filled == ChunksetSize {
		w.end()
	}
}

// end hashes the chunkset.
func (w *Writer) end() {
	switch {
	case w.buffer == nil:
		w.chunksets = append(w.chunksets, commitPlane(w.plane[:w.filled]))
	case w.filled <= planeSize:
		w.chunksets = append(w.chunksets, commitPlane(w.buffer.bytes[:w.filled]))
	default:
		clear(w.free())
		w.chunksets = append(w.chunksets, w.buffer.commit(w.filled, w.Alone))
	}
	if w.buffer != nil {
		buffers.Put(w.buffer)
	}
	w.buffer, w.filled = nil, 0
}

// Write adds bytes to the blob. It returns no error.
func (w *Writer) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := copy(w.free(), rest)
		rest = rest[n:]
		w.take(n)
	}
	return len(p), nil
}

// ReadFrom adds bytes to the blob until a reader's end.
func (w *Writer) ReadFrom(r io.Reader) (total int64, err error) {
	for {
		n, err := r.Read(w.free())
		total += int64(n)
		w.take(n)
		switch {
		case errors.Is(err, io.EOF):
			return total, nil
		case err != nil:
			return total, err
		}
	}
}

// Commitment returns the roots. The writer is then as new.
func (w *Writer) Commitment() Commitment {
	size := int64(len(w.chunksets))*ChunksetSize + int64(w.filled)
	switch {
	case size == 0:
		w.chunksets = []Chunkset{emptyChunkset()}
	case w.filled > 0:
		w.end()
	}
	if w.buffer != nil {
		buffers.Put(w.buffer)
	}
	c := NewCommitment(size, w.chunksets)
	*w = Writer{Alone: w.Alone}
	return c
}

// NewCommitment returns a blob's roots from its chunksets', which must be as many as size needs.
func NewCommitment(size int64, chunksets []Chunkset) Commitment {
	return Commitment{Size: size, Root: climb(rootsOf(chunksets), len(zeros), heightOf(int64(len(chunksets)))), Chunksets: chunksets}
}

func rootsOf(chunksets []Chunkset) []Root {
	roots := make([]Root, len(chunksets))
	for i, c := range chunksets {
		roots[i] = c.Root
	}
	return roots
}

func emptyChunkset() Chunkset {
	c := Chunkset{Root: zeros[len(zeros)-1]}
	for i := range c.Chunks {
		c.Chunks[i] = zeros[chunkHeight]
	}
	return c
}

// terms are the parity planes of a chunkset with data in its first plane only.
var terms = sync.OnceValue(func() []claycode.Term { return code().Terms(0, 0) })

// commitPlane hashes a chunkset that has only the bytes of its first plane.
func commitPlane(data []byte) Chunkset {
	c := emptyChunkset()
	leaves := new([chunkSamples]Root)
	parity := make([]byte, len(data))
	c.Chunks[0] = climb(samplesOf(data, leaves), 0, chunkHeight)
	for all := terms(); len(all) > 0; {
		chunk := all[0].Chunk
		samplesOf(nil, leaves)
		for ; len(all) > 0 && all[0].Chunk == chunk; all = all[1:] {
			all[0].Times(data, parity)
			for i := 0; i*SampleSize < len(parity); i++ {
				leaves[all[0].Plane*planeSize/SampleSize+i] = hashSample(parity[i*SampleSize : min((i+1)*SampleSize, len(parity))])
			}
		}
		c.Chunks[chunk] = climb(leaves[:], 0, chunkHeight)
	}
	c.Root = climb(slices.Clone(c.Chunks[:]), chunkHeight, chunksetHeight)
	return c
}

// commit encodes and hashes a chunkset with so many bytes of data before its zeros.
func (b *buffer) commit(size int, alone bool) (c Chunkset) {
	encode, processors := code().Encode, runtime.GOMAXPROCS(0)
	if alone {
		encode, processors = code().EncodeAlone, 1
	}
	if err := encode(b.chunks); err != nil {
		panic(err) // all chunks have the same size
	}
	var next atomic.Int64
	hash := func() {
		leaves := new([chunkSamples]Root)
		for i := int(next.Add(1)) - 1; i < chunks; i = int(next.Add(1)) - 1 {
			c.Chunks[i] = zeros[chunkHeight]
			if i >= dataChunks || i*ChunkSize < size {
				c.Chunks[i] = climb(samplesOf(b.chunks[i], leaves), 0, chunkHeight)
			}
		}
	}
	var others sync.WaitGroup
	for range min(processors, chunks) - 1 {
		others.Go(hash)
	}
	hash()
	others.Wait()
	c.Root = climb(slices.Clone(c.Chunks[:]), chunkHeight, chunksetHeight)
	return c
}
