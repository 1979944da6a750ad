package task

import (
	"context"
	"time"
)

// Wait waits for d, or until ctx ends, and returns the error of ctx.
func Wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// Repeat calls work after the first duration and then after each period, until ctx ends.
func Repeat(ctx context.Context, first, period time.Duration, work func()) {
	for pause := first; Wait(ctx, pause) == nil; pause = period {
		work()
	}
}
