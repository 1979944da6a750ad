package access

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"sluice/metastore"
)

// maxChunk is the most that goes through a pacer at once, in bytes.
const maxChunk = 1 << 20

// pacer holds streams to a rate together. Its bucket is small, 100 ms of the
// rate, so that what passes in a few seconds is the rate.
//
// Only the stream whose turn it is reserves of the bucket; the others queue for
// their turn. So one that gives up has reserved nothing that others are behind.
type pacer struct {
	bucket atomic.Pointer[rate.Limiter] // nil: no limit
	turn   chan struct{}                // full while a stream has it; channels serve senders in the order in which they came
}

func newPacer() *pacer { return &pacer{turn: make(chan struct{}, 1)} }

// limit makes this the rate.
func (p *pacer) limit(bytesPerSecond int64) {
	if bytesPerSecond == metastore.Unlimited {
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
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.turn }()
	for n > 0 {
		bucket := p.bucket.Load() // it may have changed while this waited
		if bucket == nil {
			return nil
		}
		piece := min(n, bucket.Burst())
		reserved := bucket.ReserveN(time.Now(), piece)
		if err := sleep(ctx, reserved.Delay()); err != nil {
			reserved.Cancel()
			return err
		}
		n -= piece
	}
	return nil
}

// sleep waits, unless the context ends before.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
