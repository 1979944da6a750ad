package paychan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"sluice/internal/task"
	"sluice/metastore"
)

// Settler collects an accepted micropayment before it expires. It returns nil if the payment is
// collected irrevocably. It may be called concurrently for several channels, but not for one
// channel. It may be called again with a settlement that it has collected, identified by channel
// and sequence number, and must not collect it again. It must return when ctx ends.
type Settler func(ctx context.Context, s metastore.Settlement) error

const (
	settleBatch   = 200              // settlements that are read, or paid out into the ledger, together
	settleCalls   = 64               // concurrent calls of a Settler
	settleTimeout = 10 * time.Second // for a call of a Settler
	settleRetry   = time.Second      // after a failure; also finds settlements whose wake-up was lost
	settleReview  = time.Minute      // between reviews
)

// ErrUncollected means that accepted payments expired before they were collected. The next payment
// over such a channel includes their amount.
var ErrUncollected = errors.New("accepted payments have expired uncollected")

// Unsettled returns what was accepted and not settled when Review last looked.
func (s *Service) Unsettled() metastore.Unsettled { return *s.unsettled.Load() }

// Run collects accepted payments, soon after they are accepted, until ctx ends: by concurrent calls
// of settle or, if settle is nil, into the embedded ledger, many in one transaction. It retries a
// failed settlement after a second until it expires, without delaying others. Each second it calls
// report with what was collected since the last call, the time that looking for it took, and all
// failures, joined.
func (s *Service) Run(ctx context.Context, settle Settler, report task.Report) {
	retry := time.NewTicker(settleRetry)
	defer retry.Stop()
	c := newCollection(s, settle)
	defer c.calls.Wait()
	interrupted := func(error) bool { return ctx.Err() != nil }
	run, reported := task.Run{Task: task.Settle, Began: time.Now()}, s.counts.settled.Load()
	for {
		kick, began := s.kick, time.Now()
		if err := c.start(ctx); err != nil {
			c.fail(err)
			kick = nil // retry after settleRetry, even if payments are accepted before
		}
		run.Took += time.Since(began)
		select {
		case <-ctx.Done():
			return
		case <-kick:
		case <-retry.C:
			settled := s.counts.settled.Load()
			run.Count, run.Err = settled-reported, c.failures()
			reported = settled
			if !interrupted(run.Err) {
				report(run)
			}
			run = task.Run{Task: task.Settle, Began: time.Now()}
		}
	}
}

// Review looks each minute, until ctx ends, for what is accepted and not settled. It reports
// ErrUncollected when more payments have expired uncollected.
func (s *Service) Review(ctx context.Context, report task.Report) {
	tick := time.NewTicker(settleReview)
	defer tick.Stop()
	interrupted := func(error) bool { return ctx.Err() != nil }
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			task.Do(task.ReviewSettlements, report, func() (int64, error) { return s.review(ctx) }, interrupted)
		}
	}
}

// review looks for what is accepted and not settled, and returns the number of channels whose payment
// has expired. It returns ErrUncollected if their amount has grown.
func (s *Service) review(ctx context.Context) (channels int64, err error) {
	now, err := s.meta.Unsettled(ctx)
	if err != nil {
		return 0, err
	}
	before := s.unsettled.Swap(&now)
	if grown := now.Expired.Amount - before.Expired.Amount; grown > 0 {
		return now.Expired.Channels, fmt.Errorf("%w: %d units over %d channels, %d more than before", ErrUncollected, now.Expired.Amount, now.Expired.Channels, grown)
	}
	return now.Expired.Channels, nil
}

// Settle tries once to collect each settlement that is pending now, like Run, in the order of
// their expiry. It continues after failures and returns them joined.
func (s *Service) Settle(ctx context.Context, settle Settler) error {
	c := newCollection(s, settle)
	err := c.start(ctx)
	c.calls.Wait()
	return errors.Join(err, c.failures())
}

// collection is a run of Run or Settle.
type collection struct {
	*Service
	settle Settler
	sem    chan struct{} // limits concurrent calls of settle
	calls  sync.WaitGroup

	mu struct {
		sync.Mutex
		// busy holds the channels whose settlement must not be started: zero while it is
		// being collected, or, after a failure, the time of the next try.
		busy   map[string]time.Time
		failed []error
	}
}

func newCollection(s *Service, settle Settler) *collection {
	c := &collection{Service: s, settle: settle, sem: make(chan struct{}, settleCalls)}
	c.mu.busy = map[string]time.Time{}
	return c
}

// start starts to collect all pending settlements. It waits for a slot of sem, but not for the
// calls to return.
func (c *collection) start(ctx context.Context) error {
	var last metastore.Settlement
	for ctx.Err() == nil {
		pending, err := c.meta.Settlements(ctx, last, settleBatch)
		if err != nil {
			return err
		}
		if len(pending) == 0 {
			return nil
		}
		last = pending[len(pending)-1]
		full := len(pending) == settleBatch
		if c.settle == nil {
			c.payOut(ctx, pending)
		} else if err := c.call(ctx, pending); err != nil {
			return err
		}
		if !full {
			return nil
		}
	}
	return ctx.Err()
}

// payOut collects settlements into the embedded ledger in one transaction. If that is refused, it
// tries one transaction for each, so that a wrong one does not block the others.
func (c *collection) payOut(ctx context.Context, pending []metastore.Settlement) {
	pending = slices.DeleteFunc(pending, func(p metastore.Settlement) bool { return !c.begin(p.Channel) })
	if len(pending) == 0 {
		return
	}
	err := c.meta.PayOut(ctx, pending)
	alone := err != nil && !errors.Is(err, metastore.ErrUnavailable) && !errors.Is(err, metastore.ErrUnknownOutcome)
	for _, p := range pending {
		failed := err
		if alone && ctx.Err() == nil {
			failed = c.meta.PayOut(ctx, []metastore.Settlement{p})
		}
		if failed != nil {
			failed = settlingFailed(p, failed)
		} else {
			c.counts.settled.Add(1)
		}
		c.end(p.Channel, failed)
	}
}

// call starts a call of the Settler for each settlement whose channel is not busy.
func (c *collection) call(ctx context.Context, pending []metastore.Settlement) error {
	for _, p := range pending {
		if !c.begin(p.Channel) {
			continue
		}
		select {
		case c.sem <- struct{}{}:
		case <-ctx.Done():
			c.end(p.Channel, nil)
			return ctx.Err()
		}
		c.calls.Go(func() {
			defer func() { <-c.sem }()
			err := c.settleOne(ctx, p)
			if err != nil && ctx.Err() == nil {
				err = settlingFailed(p, err)
			} else {
				err = nil
			}
			c.end(p.Channel, err)
		})
	}
	return nil
}

func settlingFailed(p metastore.Settlement, err error) error {
	return fmt.Errorf("settling payment %d of channel %.6s: %w", p.Sequence, p.Channel, err)
}

// settleOne collects one settlement, unless it has expired while it waited.
func (c *collection) settleOne(ctx context.Context, p metastore.Settlement) error {
	if !p.Expires.After(c.meta.Now()) {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	if err := c.settle(limited, p); err != nil {
		return err
	}
	err := c.meta.Settle(ctx, p.Channel, p.Sequence, p.Amount)
	if err == nil {
		c.counts.settled.Add(1)
	}
	return err
}

// begin marks a channel as busy. It reports false if it is busy already.
func (c *collection) begin(channel string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	next, busy := c.mu.busy[channel]
	if busy && (next.IsZero() || time.Now().Before(next)) {
		return false
	}
	c.mu.busy[channel] = time.Time{}
	return true
}

// end marks a channel as no longer busy, and wakes Run because a newer settlement may be pending;
// after a failure the channel stays busy until the next try.
func (c *collection) end(channel string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		delete(c.mu.busy, channel)
		if c.settle != nil {
			c.wake()
		}
		return
	}
	c.mu.busy[channel] = time.Now().Add(settleRetry)
	c.mu.failed = append(c.mu.failed, err)
}

// fail records a failure unless err is nil.
func (c *collection) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.mu.failed = append(c.mu.failed, err)
	}
}

// maxReported is how many failures are reported individually.
const maxReported = 10

// failures returns the failures since its last call, joined: the first ones, and the number of the
// others. It also removes channels from busy that failed long ago and were not tried since, such
// as those whose settlement has expired.
func (c *collection) failures() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for channel, next := range c.mu.busy {
		if !next.IsZero() && time.Since(next) > settleReview {
			delete(c.mu.busy, channel)
		}
	}
	failed := c.mu.failed
	c.mu.failed = nil
	if n := len(failed) - maxReported; n > 0 {
		failed = append(failed[:maxReported:maxReported], fmt.Errorf("and %d failures more", n))
	}
	return errors.Join(failed...)
}

// wake makes Run look for settlements now.
func (s *Service) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}
