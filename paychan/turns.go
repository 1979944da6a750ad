package paychan

import (
	"context"
	"runtime"
	"sync/atomic"
)

// turns bounds how much of the processors verifying signatures takes. They are taken in the order
// in which they were requested.
type turns struct {
	free  chan struct{} // its capacity is how many may be taken at once
	taken atomic.Int64
}

// newTurns returns turns. Half as many can be taken at once as there are processors, so that the
// other half serves requests that verify nothing.
func newTurns() turns {
	return turns{free: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
}

// take calls do in a turn and returns its error, or ctx's if that ends before the turn. After a
// turn it lets other goroutines run.
func (t *turns) take(ctx context.Context, do func() error) error {
	select {
	case t.free <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer runtime.Gosched()
	defer func() { <-t.free }()
	t.taken.Add(1)
	return do()
}
