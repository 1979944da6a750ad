package blob

import (
	"math/rand/v2"
	"sluice/bytestore"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"sluice/metastore"
)

const (
	// maxSmallObject is the greatest size in bytes of objects that are kept in memory. Above it, to
	// send an open file takes as little time (docs/decisions/0025-caches-of-reads.md).
	maxSmallObject = 32 << 10
	// keptShare is how many reads of an object that is not kept there are for each that keeps it:
	// objects that are read once or twice are seldom worth the memory and the copy.
	keptShare = 8
	// smallOverhead is a kept object's memory without its bytes, in bytes: its name and its place
	// in the cache.
	smallOverhead = 160
)

// smallObjects keeps the bytes of small objects in memory that are read often, after they were
// checked. Objects do not change, so what is kept is exact. Its methods may be called concurrently.
// A nil *smallObjects keeps nothing.
type smallObjects struct {
	size    int64
	checks  *checkLog
	kept    *otter.Cache[string, smallObject]
	sending atomic.Int64 // bytes of objects that are being read or written

	hits, misses atomic.Int64
}

// smallObject is an object's bytes, and the Unix time in seconds at which they were read from the
// store and checked.
type smallObject struct {
	bytes   []byte
	checked int64
}

// newSmallObjects returns a cache of at most size bytes, or nil if size is not greater than 0 or
// every read has to check. Reads that are going on hold as many again.
func newSmallObjects(size int64, checks *checkLog) *smallObjects {
	if size <= 0 || checks.ttl < time.Second {
		return nil
	}
	return &smallObjects{size: size, checks: checks, kept: otter.Must(&otter.Options[string, smallObject]{
		MaximumWeight: uint64(size),
		Weigher: func(_ string, o smallObject) uint32 {
			return uint32(smallOverhead + len(o.bytes) + len(o.bytes)/16)
		},
	})}
}

// begin reports whether an extent's object may be read from memory, or into it. If so, the caller
// must call end afterwards. Slow clients do not use more memory than the cache's size: while they
// do, objects are read from the store.
func (o *smallObjects) begin(e *metastore.Extent) bool {
	if o == nil || e.Size > maxSmallObject {
		return false
	}
	if o.sending.Add(e.Size) > o.size {
		o.end(e)
		return false
	}
	return true
}

func (o *smallObjects) end(e *metastore.Extent) { o.sending.Add(-e.Size) }

// find returns an extent's bytes, or nil if they are not kept or were not checked lately. Then keep
// reports whether they are to be kept.
func (o *smallObjects) find(e *metastore.Extent) (b []byte, keep bool) {
	found, ok := o.kept.GetIfPresent(e.Object)
	if ok && int64(len(found.bytes)) == e.Size && o.checks.within(found.checked) {
		o.hits.Add(1)
		return found.bytes, false
	}
	o.misses.Add(1)
	return nil, ok || rand.Uint32N(keptShare) == 0
}

// keep keeps an extent's bytes, which were just checked and must not be changed any more.
func (o *smallObjects) keep(e *metastore.Extent, b []byte) {
	o.kept.Set(e.Object, smallObject{b, o.checks.now().Unix()})
}

// SmallStats are the figures of the cache of small objects.
type SmallStats struct {
	Hits, Misses int64 // reads of objects that were in it, and of others that are small enough
	Bytes        int64 // its memory, about, without what is being sent
}

func (o *smallObjects) stats() SmallStats {
	if o == nil {
		return SmallStats{}
	}
	o.kept.CleanUp() // what was kept and dropped lately is counted, too
	return SmallStats{Hits: o.hits.Load(), Misses: o.misses.Load(), Bytes: int64(o.kept.WeightedSize())}
}

// drop ends the keeping of objects.
func (o *smallObjects) drop(names ...bytestore.Name) {
	if o == nil {
		return
	}
	for _, name := range names {
		o.kept.Invalidate(string(name))
	}
}
