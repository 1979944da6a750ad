package claycode

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Work is done in strips: the same columns in all planes of one group. A strip is so narrow that
// its planes stay in the cache while they are coupled, coded and uncoupled, and so wide that the
// kernels' calls and the memory's pages do not cost more.
const (
	stripTotal = 1 << 20 // bytes in all chunks and planes
	stripLeast = 1024    // columns
	// parallelLeast is how many bytes are worth a second goroutine.
	parallelLeast = 256 << 10
)

// run computes the coded bytes for the plan's lost chunks, and calls finish for each strip. It uses
// all processors if there is much to do.
func (b *planes) run(p *plan, workers *sync.Pool, finish func(group, from, to int)) {
	width := min(max(stripTotal/(len(p.order)*len(p.isLost))&^63, stripLeast), stripMost, b.size)
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
	parallel := min(runtime.GOMAXPROCS(0), units)
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
