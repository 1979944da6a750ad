package blob

import "sync/atomic"

// counts are the counters of Stats.
type counts struct {
	freedContents, freedObjects, damaged atomic.Int64
}
