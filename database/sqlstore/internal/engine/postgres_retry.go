package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"sluice/database"
)

// errPatience ends a call's attempts.
var errPatience = errors.New("sqlstore: out of patience")

// retries counts a call's attempts.
type retries struct {
	*postgresEngine
	n int
}

// wait sleeps before the next attempt, with exponential backoff. It returns an error if
// there must be no further attempt: ctx has ended, the store is closed, or the attempt
// would begin after until.
func (r *retries) wait(ctx context.Context, f errorClass, until time.Time) error {
	least, most := time.Millisecond, 128*time.Millisecond
	if f == classLost {
		least, most = 8*time.Millisecond, 512*time.Millisecond
	}
	pause := min(least<<min(r.n, 10), most)
	// Jitter, so that calls that conflicted do not conflict again.
	pause = pause/2 + rand.N(pause)
	if time.Until(until) < pause {
		return errPatience
	}
	r.n++
	if f == classLost {
		r.lostRetries.Add(1)
	} else {
		r.conflictRetries.Add(1)
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-r.quit:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// gaveUpError is the error for a call that had no effect. The call's last attempt failed with err
// of class f.
func gaveUpError(why error, f errorClass, err error) error {
	switch {
	case !errors.Is(why, errPatience):
	case f == classLost:
		why = database.ErrUnavailable
	default:
		why = database.ErrBusy
	}
	return fmt.Errorf("sqlstore: %w: %w", why, err)
}
