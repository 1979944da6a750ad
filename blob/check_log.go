package blob

import (
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"sluice/metastore"
)

// checkLog records when blocks were last found intact, so that they can be sent without being read
// by this process. Its memory is bounded: blocks of evicted extents are checked again.
type checkLog struct {
	ttl     time.Duration
	now     func() time.Time
	extents *otter.Cache[string, blockTimes]
}

// blockTimes holds the Unix time in seconds at which each block in an extent was last checked,
// or 0.
type blockTimes []atomic.Int64

const (
	// checkLogSize is the log's memory in bytes, about: 290,000 extents of one block, or 4 TiB in
	// the longest ones.
	checkLogSize = 48 << 20
	// timesOverhead is an extent's memory in the log without its name and times, in bytes.
	timesOverhead = 140
)

func newCheckLog(ttl time.Duration, now func() time.Time) *checkLog {
	return &checkLog{ttl, now, otter.Must(&otter.Options[string, blockTimes]{
		MaximumWeight: checkLogSize,
		Weigher: func(name string, times blockTimes) uint32 {
			return uint32(timesOverhead + len(name) + 8*len(times))
		},
	})}
}

// of returns the times of an extent that passed checkExtent, which the caller may update.
func (l *checkLog) of(e *metastore.Extent) blockTimes {
	times, ok := l.extents.GetIfPresent(e.Object)
	if !ok {
		times, _ = l.extents.SetIfAbsent(e.Object, make(blockTimes, len(e.Blocks)))
	}
	if len(times) != len(e.Blocks) { // one of two rows for the object is damaged
		return make(blockTimes, len(e.Blocks))
	}
	return times
}

// fresh reports whether the block was checked within the TTL.
func (l *checkLog) fresh(times blockTimes, block int64) bool {
	return l.within(times[block].Load())
}

// within reports whether a check at a Unix time in seconds was within the TTL.
func (l *checkLog) within(checked int64) bool {
	age := l.now().Unix() - checked
	return age >= 0 && age < int64(l.ttl/time.Second) // negative if the clock was set back
}

func (l *checkLog) note(times blockTimes, block int64) {
	times[block].Store(l.now().Unix())
}
