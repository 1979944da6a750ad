package localfs

import "sync"

// bufferSize is how much of a source is buffered for one write: enough for system calls to cost
// next to nothing. A Put holds its buffer for as long as its source takes, so at most
// maxLargeBuffers Puts have one of that size at a time. Further Puts have smallBufferSize.
const (
	bufferSize      = 512 << 10
	maxLargeBuffers = 64
	smallBufferSize = 32 << 10
)

var (
	largeBuffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}
	smallBuffers = sync.Pool{New: func() any { return new([smallBufferSize]byte) }}
)

// buffers hands out a Store's buffers. Its methods may be called concurrently.
type buffers struct {
	large chan struct{} // semaphore for the large ones
}

func newBuffers() buffers { return buffers{large: make(chan struct{}, maxLargeBuffers)} }

// with calls f with a buffer, a large one if there is one.
func (b buffers) with(f func(buf []byte) error) error {
	select {
	case b.large <- struct{}{}:
		defer func() { <-b.large }()
		buf := largeBuffers.Get().(*[bufferSize]byte)
		defer largeBuffers.Put(buf)
		return f(buf[:])
	default:
		buf := smallBuffers.Get().(*[smallBufferSize]byte)
		defer smallBuffers.Put(buf)
		return f(buf[:])
	}
}
