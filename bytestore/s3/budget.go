package s3

import "sync/atomic"

// budget is a number of bytes shared by several users.
type budget struct {
	limit int64
	used  atomic.Int64
}

// tryAcquire acquires n bytes, or none if fewer are left.
func (b *budget) tryAcquire(n int64) bool {
	if b.used.Add(n) <= b.limit {
		return true
	}
	b.used.Add(-n)
	return false
}

func (b *budget) release(n int64) { b.used.Add(-n) }
