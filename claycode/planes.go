package claycode

// stripMost is how many columns are coded at a time, at most.
const stripMost = 2 << 10

// planes are the chunks that a plan reads and writes.
type planes struct {
	chunks [][]byte
	size   int // of a plane
	// processors is how many are used at most.
	processors int
	// at has the planes' places in chunks where they do not lie in the order of their numbers.
	at [][]int
}

// plane returns columns [from, to) in a chunk's plane.
func (b *planes) plane(chunk, z, from, to int) []byte {
	if b.at != nil && b.at[chunk] != nil {
		z = b.at[chunk][z]
	}
	start := z * b.size
	return b.chunks[chunk][start+from : start+to]
}

// worker has the memory of one goroutine.
type worker struct {
	coded  [][]byte // known chunks' coded bytes in a plane
	buffer []byte   // for coded bytes that differ from the stored ones
}

func newWorker(k int) *worker {
	return &worker{coded: make([][]byte, k), buffer: make([]byte, k*scratchStride)}
}

// scratchStride is the distance of two chunks' coded bytes. It is no multiple of 4 KiB, so that
// they do not compete for the same cache lines.
const scratchStride = stripMost + 64

// scratch returns memory for the j-th known chunk's coded bytes.
func (w *worker) scratch(j, size int) []byte {
	return w.buffer[j*scratchStride:][:size]
}
