package client

import (
	"context"
	"sync"
)

// parallel calls work for each item, in order, with at most n calls running. The first error
// cancels the other calls' context, and is returned when all have returned.
func parallel(ctx context.Context, n int, items []int, work func(ctx context.Context, item int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan int)
	var workers sync.WaitGroup
	for range min(n, len(items)) {
		workers.Go(func() {
			for item := range queue {
				if ctx.Err() != nil {
					continue
				}
				if err := work(ctx, item); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, item := range items {
		queue <- item
	}
	close(queue)
	workers.Wait()
	return context.Cause(ctx)
}

// bufferSize is how large the buffers are with which bytes are copied: large enough that system
// calls do not matter, small enough for a processor's cache.
const bufferSize = 256 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}
