package access

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"sluice/metastore"
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
	if perSecond == metastore.Unlimited {
		r.bucket.Store(nil)
		return
	}
	r.bucket.Store(rate.NewLimiter(rate.Limit(perSecond), int(perSecond)))
}

// take takes a token, or none if that would take longer than maxWait.
func (r *requestRate) take(ctx context.Context) error {
	bucket := r.bucket.Load()
	if bucket == nil {
		return nil
	}
	token, delay := r.reserve(bucket)
	if delay > maxWait {
		return &RateError{RetryAfter: delay}
	}
	if err := sleep(ctx, delay); err != nil {
		token.Cancel()
		return err
	}
	return nil
}

// reserve takes the next token, unless the delay until then is too long.
func (r *requestRate) reserve(bucket *rate.Limiter) (*rate.Reservation, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	token := bucket.ReserveN(now, 1)
	delay := token.DelayFrom(now)
	if delay > maxWait {
		token.CancelAt(now)
	}
	return token, delay
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
