package client

import (
	"context"
	"slices"
	"sync"
)

// maxAhead is how many chunksets a readAhead keeps at most, read or being read: 40 MiB.
const maxAhead = 4

// readAhead keeps the chunksets from which ReadAt has last read a part, so that small reads of one
// that must be paid for are charged once. Its zero value is ready to use.
type readAhead struct {
	mu      sync.Mutex
	changed sync.Cond // on mu; its L is set by the first use
	kept    []*aheadChunkset
}

// aheadChunkset is a chunkset that was read, or is being read.
type aheadChunkset struct {
	index int64
	ready chan struct{} // closed when it was read, or failed
	bytes []byte
	err   error
}

// read copies bytes from a chunkset of size bytes, from an offset in it on. It calls fetch to read
// the chunkset if it is not kept.
func (a *readAhead) read(ctx context.Context, p []byte, index, offset, size int64, fetch func([]byte) error) error {
	c, mine := a.claim(index)
	if mine {
		buffer := make([]byte, size)
		err := fetch(buffer)
		a.mu.Lock()
		c.bytes, c.err = buffer, err
		if err != nil {
			a.kept = slices.DeleteFunc(a.kept, func(k *aheadChunkset) bool { return k == c })
		}
		close(c.ready)
		a.changed.Broadcast()
		a.mu.Unlock()
	}
	select {
	case <-c.ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if c.err == nil {
		copy(p, c.bytes[offset:])
	}
	return c.err
}

// claim returns a chunkset, and whether the caller must read it. If all that may be kept are being
// read, it waits until one was.
func (a *readAhead) claim(index int64) (c *aheadChunkset, mine bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changed.L = &a.mu
	for {
		if i := slices.IndexFunc(a.kept, func(k *aheadChunkset) bool { return k.index == index }); i >= 0 {
			c = a.kept[i]
			a.kept = append(slices.Delete(a.kept, i, i+1), c) // the last used one is last
			return c, false
		}
		if len(a.kept) < maxAhead {
			break
		}
		if i := slices.IndexFunc(a.kept, (*aheadChunkset).isReady); i >= 0 {
			a.kept = slices.Delete(a.kept, i, i+1)
			break
		}
		a.changed.Wait()
	}
	c = &aheadChunkset{index: index, ready: make(chan struct{})}
	a.kept = append(a.kept, c)
	return c, true
}

func (c *aheadChunkset) isReady() bool {
	select {
	case <-c.ready:
		return true
	default:
		return false
	}
}
