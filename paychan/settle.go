package paychan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/metastore"
)

// Settler collects an accepted micropayment before it expires. nil means that
// it is collected for good. It may be called at once for several channels, for
// one channel with one settlement at a time, and again with one that it has
// collected, of which it must make nothing new: a channel and a sequence number
// name it. It must return when its context ends.
type Settler func(ctx context.Context, s metastore.Settlement) error

// Ledger is the Settler of an instance without a chain: it pays out into the
// embedded ledger.
func (s *Service) Ledger() Settler { return s.meta.Collect }

// How settling is tried.
const (
	settleBatch  = 200              // settlements that are read, or paid out into the ledger, at once
	settleCalls  = 64               // of a Settler at once
	settleTime   = 10 * time.Second // for a call
	settleRetry  = time.Second      // after a failure, and as a net under a lost kick
	settleReview = time.Minute      // between looks at what has expired
)

// ErrUncollected reports payments that were accepted and expired before they
// were collected. The next payment over the channel collects their amount, too.
var ErrUncollected = errors.New("accepted payments have expired uncollected")

// uncollected is what has expired, when it was last looked for.
type uncollected struct{ count, amount atomic.Int64 }

// Uncollected returns how many channels have a payment that expired before it was
// collected, and the sum of what is not settled of them, as Run last saw it.
func (s *Service) Uncollected() (channels, amount int64) {
	return s.uncollected.count.Load(), s.uncollected.amount.Load()
}

// Run collects what is accepted, soon after it was, until ctx ends: with settle,
// in parallel, or, where settle is nil, into the embedded ledger, many in one
// transaction. What fails is tried again a second later until it expires, and
// keeps nothing else waiting. Failures go to report, joined, once a second, and so
// does ErrUncollected when there is more of it.
func (s *Service) Run(ctx context.Context, settle Settler, report func(task string, err error)) {
	retry, review := time.NewTicker(settleRetry), time.NewTicker(settleReview)
	defer retry.Stop()
	defer review.Stop()
	c := newCollection(s, settle)
	defer c.calls.Wait()
	for {
		kick := s.kick
		if err := c.start(ctx); err != nil {
			c.fail(err)
			kick = nil // the store is not asked at once again, whatever is accepted meanwhile
		}
		select {
		case <-ctx.Done():
			return
		case <-kick:
		case <-retry.C:
			if err := c.failures(); err != nil && ctx.Err() == nil {
				report("settle", err)
			}
		case <-review.C:
			if err := s.review(ctx); err != nil && ctx.Err() == nil {
				report("settle", err)
			}
		}
	}
}

// review looks for what has expired uncollected. It is an error when there is
// more of it than before.
func (s *Service) review(ctx context.Context) error {
	count, amount, err := s.meta.Uncollected(ctx)
	if err != nil {
		return err
	}
	s.uncollected.count.Store(count)
	if before := s.uncollected.amount.Swap(amount); amount > before {
		return fmt.Errorf("%w: %d units over %d channels, %d more than before", ErrUncollected, amount, count, amount-before)
	}
	return nil
}

// Settle collects all settlements that are pending now, as Run does, those that
// expire first at first, each once. It goes on past failures and returns them
// joined.
func (s *Service) Settle(ctx context.Context, settle Settler) error {
	c := newCollection(s, settle)
	err := c.start(ctx)
	c.calls.Wait()
	return errors.Join(err, c.failures())
}

// collection is settling at work.
type collection struct {
	*Service
	settle Settler
	places chan struct{}
	calls  sync.WaitGroup

	mu struct {
		sync.Mutex
		// busy are the channels that are not to be asked for: at work (zero), or
		// after a failure, until then.
		busy   map[string]time.Time
		failed []error
	}
}

func newCollection(s *Service, settle Settler) *collection {
	c := &collection{Service: s, settle: settle, places: make(chan struct{}, settleCalls)}
	c.mu.busy = map[string]time.Time{}
	return c
}

// start looks once through what is pending, and starts to collect it. It waits
// for a place, but for no call.
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
		whole := len(pending) == settleBatch
		if c.settle == nil {
			c.payOut(ctx, pending)
		} else if err := c.call(ctx, pending); err != nil {
			return err
		}
		if !whole {
			return nil
		}
	}
	return ctx.Err()
}

// payOut collects settlements into the embedded ledger, in one transaction. When
// that is refused each has its own, so that one that is wrong stops no other.
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
		}
		c.end(p.Channel, failed)
	}
}

// call starts a call of the Settler for each settlement whose channel has none.
func (c *collection) call(ctx context.Context, pending []metastore.Settlement) error {
	for _, p := range pending {
		if !c.begin(p.Channel) {
			continue
		}
		select {
		case c.places <- struct{}{}:
		case <-ctx.Done():
			c.end(p.Channel, nil)
			return ctx.Err()
		}
		c.calls.Go(func() {
			defer func() { <-c.places }()
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

// settleOne collects one settlement, unless it has expired while others were.
func (c *collection) settleOne(ctx context.Context, p metastore.Settlement) error {
	if !p.Expires.After(c.meta.Now()) {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if err := c.settle(limited, p); err != nil {
		return err
	}
	return c.meta.Settle(ctx, p.Channel, p.Sequence, p.Amount)
}

// begin reports whether a channel may be asked for, and then is at work.
func (c *collection) begin(channel string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	until, busy := c.mu.busy[channel]
	if busy && (until.IsZero() || time.Now().Before(until)) {
		return false
	}
	c.mu.busy[channel] = time.Time{}
	return true
}

// end ends the work for a channel. What came in meanwhile is looked for at once;
// after a failure it waits.
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

// fail notes a failure; nil is none.
func (c *collection) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.mu.failed = append(c.mu.failed, err)
	}
}

// failuresTold is how many failures are told one by one.
const failuresTold = 10

// failures returns what has failed since it was last asked, joined: the first
// ones, and the number of the others. It also forgets the channels that failed
// long ago and were not tried since.
func (c *collection) failures() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for channel, until := range c.mu.busy {
		if !until.IsZero() && time.Since(until) > settleReview {
			delete(c.mu.busy, channel)
		}
	}
	failed := c.mu.failed
	c.mu.failed = nil
	if n := len(failed) - failuresTold; n > 0 {
		failed = append(failed[:failuresTold:failuresTold], fmt.Errorf("and %d failures more", n))
	}
	return errors.Join(failed...)
}

// wake asks Run to look for settlements now.
func (s *Service) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}
