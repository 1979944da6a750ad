package blob

import (
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
)

// checkLog records when blocks were last found intact, so that they can be sent without being read
// by this process. Its size is bounded: blocks of evicted extents are checked again.
type checkLog struct {
	ttl     time.Duration
	now     func() time.Time
	extents *otter.Cache[string, *blockTimes]
}

// maxBlocks is the number of blocks in the longest extent.
const maxBlocks = 64

// blockTimes holds the Unix time in seconds at which each block in an extent was last checked,
// or 0.
type blockTimes [maxBlocks]atomic.Int64

// checkLogSize is the number of extents in the log: 32 MiB of memory for 4 TiB in the longest
// extents.
const checkLogSize = 64 << 10

func newCheckLog(ttl time.Duration, now func() time.Time) *checkLog {
	return &checkLog{
		ttl:     ttl,
		now:     now,
		extents: otter.Must(&otter.Options[string, *blockTimes]{MaximumSize: checkLogSize}),
	}
}

// of returns an extent's times, which the caller may update.
func (l *checkLog) of(name string) *blockTimes {
	if times, ok := l.extents.GetIfPresent(name); ok {
		return times
	}
	times, _ := l.extents.SetIfAbsent(name, new(blockTimes))
	return times
}

// fresh reports whether the block was checked within the TTL.
func (l *checkLog) fresh(times *blockTimes, block int64) bool {
	age := l.now().Unix() - times[block].Load()
	return age >= 0 && age < int64(l.ttl/time.Second) // negative if the clock was set back
}

func (l *checkLog) note(times *blockTimes, block int64) {
	times[block].Store(l.now().Unix())
}
