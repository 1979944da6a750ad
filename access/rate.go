package access

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"sluice/access/keys"
	"sluice/internal/task"
)

// RateError is ErrRate with the time after which the request would have been admitted.
type RateError struct{ RetryAfter time.Duration }

// Error returns a sentence with the time.
func (e *RateError) Error() string { return fmt.Sprintf("%s: try again in %v", ErrRate, e.RetryAfter) }

// Unwrap returns ErrRate.
func (e *RateError) Unwrap() error { return ErrRate }

// maxWait is how long a request waits for its turn under the request rate.
const maxWait = 2 * time.Second

// requestRate is the request rate: a token bucket of one second.
type requestRate struct {
	bucket atomic.Pointer[rate.Limiter] // nil: unlimited
	mu     sync.Mutex                   // makes reserving and cancelling atomic
}

func (r *requestRate) setLimit(perSecond int64) {
	if perSecond == keys.Unlimited {
		r.bucket.Store(nil)
		return
	}
	r.bucket.Store(rate.NewLimiter(rate.Limit(perSecond), int(perSecond)))
}

// take takes n tokens, or none if that would take longer than patience. More tokens than the bucket
// holds count as a full bucket, because a wait for more would never end.
func (r *requestRate) take(ctx context.Context, n int, patience time.Duration) error {
	bucket := r.bucket.Load()
	if bucket == nil {
		return nil
	}
	tokens, delay := r.reserve(bucket, min(n, bucket.Burst()), patience)
	if delay > patience {
		return &RateError{RetryAfter: delay}
	}
	if err := task.Wait(ctx, delay); err != nil {
		tokens.Cancel()
		return err
	}
	return nil
}

// reserve takes the next n tokens, unless the delay until then is too long.
func (r *requestRate) reserve(bucket *rate.Limiter, n int, patience time.Duration) (*rate.Reservation, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	tokens := bucket.ReserveN(now, n)
	delay := tokens.DelayFrom(now)
	if delay > patience {
		tokens.CancelAt(now)
	}
	return tokens, delay
}

// spend takes n tokens, or all that there ever are, even if they are not there yet.
func (r *requestRate) spend(n int64) {
	bucket := r.bucket.Load()
	if bucket == nil || n <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	bucket.ReserveN(time.Now(), int(min(n, int64(bucket.Burst()))))
}

func (r *requestRate) state() (left int64, full time.Duration) {
	bucket := r.bucket.Load()
	if bucket == nil {
		return math.MaxInt64, 0
	}
	tokens := bucket.Tokens()
	missing := (float64(bucket.Burst()) - tokens) / float64(bucket.Limit())
	return int64(max(0, tokens)), time.Duration(missing * float64(time.Second))
}
