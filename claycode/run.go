package claycode

import (
	"sync"
	"sync/atomic"
)

// Work is done in strips: the same columns in all planes of one group, coupled, coded and uncoupled
// before the next strip, so that they stay in the cache.
const (
	stripLeast = 512 // columns
	// parallelLeast is how many bytes are worth a second goroutine.
	parallelLeast = 256 << 10
)

// run computes the coded bytes for the plan's lost chunks, and calls finish for each strip. It uses
// several processors if there is much to do.
func (b *planes) run(p *plan, workers *sync.Pool, finish func(group, from, to int)) {
	width := min(stripMost, b.size)
	for width > stripLeast && len(p.groups)*b.size/width < b.processors {
		width /= 2
	}
	strips := (b.size + width - 1) / width
	units := len(p.groups) * strips
	var next atomic.Int64
	work := func() {
		w := workers.Get().(*worker)
		defer workers.Put(w)
		for unit := int(next.Add(1)) - 1; unit < units; unit = int(next.Add(1)) - 1 {
			group, from := p.groups[unit/strips], unit%strips*width
			to := min(from+width, b.size)
			p.compute(b, w, group, from, to)
			finish(group, from, to)
		}
	}
	parallel := min(b.processors, units)
	if len(p.groups)*len(p.order)*b.size*len(p.isLost) < parallelLeast {
		parallel = 1
	}
	var others sync.WaitGroup
	for range parallel - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
}
