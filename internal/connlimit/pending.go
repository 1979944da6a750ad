package connlimit

import (
	"context"
	"sync"
)

// pending counts connections while goroutines wait for their next step. A lock guards it.
type pending struct {
	count int
	none  chan struct{} // closed when count becomes 0; nil: nobody waits
}

func (p *pending) add() { p.count++ }

func (p *pending) done() {
	if p.count--; p.count == 0 && p.none != nil {
		close(p.none)
		p.none = nil
	}
}

// await waits until there are none, or until ctx ends. The caller must not hold the lock.
func (p *pending) await(ctx context.Context, lock *sync.Mutex) {
	lock.Lock()
	if p.count == 0 {
		lock.Unlock()
		return
	}
	if p.none == nil {
		p.none = make(chan struct{})
	}
	none := p.none
	lock.Unlock()
	select {
	case <-none:
	case <-ctx.Done():
	}
}
