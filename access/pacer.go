package access

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"sluice/access/keys"
	"sluice/internal/task"
)

// maxChunk is the most that passes a pacer at a time, in bytes.
const maxChunk = 1 << 20

// pacer limits several streams together to a rate. Its token bucket is small, 100 ms at the rate,
// so that the average over a few seconds is the rate.
//
// Only the stream that holds sem reserves tokens; the rest queue for sem. So no stream waits for
// tokens that a cancelled one has reserved.
type pacer struct {
	bucket atomic.Pointer[rate.Limiter] // nil: unlimited
	sem    chan struct{}                // of capacity 1; channels serve senders in FIFO order
	hits   *atomic.Int64                // counts the waits that had to
}

func newPacer(hits *atomic.Int64) *pacer { return &pacer{sem: make(chan struct{}, 1), hits: hits} }

func (p *pacer) setLimit(bytesPerSecond int64) {
	if bytesPerSecond == keys.Unlimited {
		p.bucket.Store(nil)
		return
	}
	p.bucket.Store(rate.NewLimiter(rate.Limit(bytesPerSecond), int(max(1, bytesPerSecond/10))))
}

func (p *pacer) chunk() int64 {
	bucket := p.bucket.Load()
	if bucket == nil {
		return maxChunk
	}
	return int64(min(maxChunk, bucket.Burst()))
}

// wait waits until n bytes may pass.
func (p *pacer) wait(ctx context.Context, n int) error {
	if p.bucket.Load() == nil {
		return nil
	}
	select {
	case p.sem <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.sem }()
	delayed := false
	for n > 0 {
		bucket := p.bucket.Load() // it may have been replaced
		if bucket == nil {
			return nil
		}
		piece := min(n, bucket.Burst())
		reserved := bucket.ReserveN(time.Now(), piece)
		delay := reserved.Delay()
		if delay > 0 && !delayed {
			delayed = true
			p.hits.Add(1)
		}
		if err := task.Wait(ctx, delay); err != nil {
			reserved.Cancel()
			return err
		}
		n -= piece
	}
	return nil
}
