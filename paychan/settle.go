package paychan

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/database"
	"sluice/internal/task"
	"sluice/ledger"
)

const (
	settleBatch   = 200              // settlements that are booked in one transaction
	settleTimeout = 10 * time.Second // for a call to the store
	settleRetry   = time.Second      // after a failure; also finds settlements after a lost wake-up
	settleReview  = time.Minute      // between reviews
	maxReported   = 10               // failures that are reported individually
)

// ErrUncollected means that accepted payments expired before they were settled. The next payment
// over such a channel includes their amount.
var ErrUncollected = errors.New("accepted payments have expired uncollected")

// Unsettled returns the amounts that were accepted and not settled when Review last looked, and
// false unless Review is running and has looked.
func (s *Service) Unsettled() (ledger.Unsettled, bool) {
	if last := s.unsettled.Load(); last != nil {
		return *last, true
	}
	return ledger.Unsettled{}, false
}

// Run books settlements in the ledger, soon after their payments were accepted, until ctx ends.
// After a failure it tries again a second later. Each second it calls report with how many were
// booked since the last call, the time that it took, and the failures, joined. It is for a Service
// without a chain.
func (s *Service) Run(ctx context.Context, report task.Report) {
	retry := time.NewTicker(settleRetry)
	defer retry.Stop()
	run, reported := task.Run{Task: task.Settle, Began: time.Now()}, s.counts.settled.Load()
	for {
		kick, began := s.kick, time.Now()
		if run.Err = s.Settle(ctx); run.Err != nil {
			kick = nil // retry after settleRetry, even if payments are accepted before
		}
		run.Took += time.Since(began)
		select {
		case <-ctx.Done():
			return
		case <-kick:
		case <-retry.C:
			if ctx.Err() != nil {
				return // the failure may be due to it
			}
			settled := s.counts.settled.Load()
			run.Count, reported = settled-reported, settled
			report(run)
			run = task.Run{Task: task.Settle, Began: time.Now()}
		}
	}
}

// Review looks now and each minute, until ctx ends, for amounts that are accepted and not settled.
// It reports ErrUncollected when more payments have expired uncollected.
func (s *Service) Review(ctx context.Context, report task.Report) {
	defer s.unsettled.Store(nil)
	interrupted := func(error) bool { return ctx.Err() != nil }
	task.Repeat(ctx, 0, settleReview, func() {
		task.Do(task.ReviewSettlements, report, func() (int64, error) { return s.review(ctx) }, interrupted)
	})
}

// review looks for amounts that are accepted and not settled, and returns over how many channels a
// payment has expired. It returns ErrUncollected if their amount has grown.
func (s *Service) review(ctx context.Context) (channels int64, err error) {
	now, err := s.meta.Unsettled(ctx)
	if err != nil {
		return 0, err
	}
	before, _ := s.Unsettled()
	s.unsettled.Store(&now)
	if grown := now.Expired.Amount - before.Expired.Amount; grown > 0 {
		return now.Expired.Channels, fmt.Errorf("%w: %d units over %d channels, %d more than before", ErrUncollected, now.Expired.Amount, now.Expired.Channels, grown)
	}
	return now.Expired.Channels, nil
}

// Settle tries once to book each settlement that is pending now, in the order of their expiry. It
// continues after failures and returns them joined: the first ones, and how many more there were.
func (s *Service) Settle(ctx context.Context) error {
	var last ledger.Settlement
	var failed []error
	for {
		pending, err := s.pending(ctx, last)
		if err != nil {
			return joined(append(failed, err))
		}
		failed = append(failed, s.book(ctx, pending)...)
		if len(pending) < settleBatch {
			return joined(failed)
		}
		last = pending[len(pending)-1]
	}
}

func (s *Service) pending(ctx context.Context, after ledger.Settlement) ([]ledger.Settlement, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	return s.meta.Settlements(ctx, after, settleBatch)
}

// book books settlements in one transaction. If that is refused, it tries one transaction for each,
// so that a wrong one blocks no other.
func (s *Service) book(ctx context.Context, pending []ledger.Settlement) (failed []error) {
	if len(pending) == 0 {
		return nil
	}
	err := s.bookAll(ctx, pending)
	switch {
	case err == nil:
		s.counts.settled.Add(int64(len(pending)))
		return nil
	case len(pending) == 1:
		return []error{fmt.Errorf("settling payment %d of channel %.6s: %w", pending[0].Sequence, pending[0].Channel, err)}
	case !refused(err):
		return []error{fmt.Errorf("settling %d payments: %w", len(pending), err)}
	}
	for i := range pending {
		one := s.book(ctx, pending[i:i+1])
		failed = append(failed, one...)
		if len(one) > 0 && !refused(one[0]) {
			break
		}
	}
	return failed
}

func (s *Service) bookAll(ctx context.Context, pending []ledger.Settlement) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	return s.meta.Book(ctx, pending)
}

// refused reports whether err is due to the settlements, and not to an outage of the store.
func refused(err error) bool {
	for _, outage := range []error{database.ErrUnavailable, database.ErrUnknownOutcome, context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, outage) {
			return false
		}
	}
	return true
}

func joined(failed []error) error {
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
