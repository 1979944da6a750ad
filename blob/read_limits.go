package blob

import (
	"context"
	"sync"

	"sluice/integrity"
)

// pieceSize is the length of a piece: what is read at a time if a block is not buffered whole. A
// reader with a slow client holds one piece.
const pieceSize = 32 << 10

var (
	blockBuffers = sync.Pool{New: func() any { return new([integrity.BlockSize]byte) }}
	pieceBuffers = sync.Pool{New: func() any { return new([pieceSize]byte) }}
)

// readLimits limits the resources for all of a Service's reads.
type readLimits struct {
	files  chan struct{} // semaphore of reads of files
	blocks chan struct{} // semaphore of block buffers
}

// maxFileReads is the number of concurrent reads of files. Each may block a thread. Reads over a
// network are not limited, because a store that stalls for some readers would stop all others.
const maxFileReads = 64

// newReadLimits returns the limits for the given number of bytes of block buffers.
func newReadLimits(buffers int64) *readLimits {
	return &readLimits{
		files:  make(chan struct{}, maxFileReads),
		blocks: make(chan struct{}, max(buffers, 0)/integrity.BlockSize),
	}
}

// acquireFile waits until another file may be read.
func (l *readLimits) acquireFile(ctx context.Context) error {
	select {
	case l.files <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *readLimits) releaseFile() { <-l.files }

// acquireBlock reports whether another block may be buffered. It does not wait, because a buffer
// may be held for as long as a client is slow.
func (l *readLimits) acquireBlock() bool {
	select {
	case l.blocks <- struct{}{}:
		return true
	default:
		return false
	}
}

func (l *readLimits) releaseBlock() { <-l.blocks }
