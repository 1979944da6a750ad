package s3

import "sync/atomic"

// budget is a number of bytes that several share.
type budget struct {
	limit int64
	used  atomic.Int64
}

// take takes n bytes, or none when there are not as many.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) <= b.limit {
		return true
	}
	b.used.Add(-n)
	return false
}

// give returns n bytes.
func (b *budget) give(n int64) { b.used.Add(-n) }
