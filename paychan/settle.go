package paychan

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/metastore"
)

// Settler collects an accepted micropayment before it expires. nil means that
// it is collected for good. It is called with one settlement at a time, and may
// be called again with one that it has collected, of which it must make nothing
// new: a channel and a sequence number name it.
type Settler func(ctx context.Context, s metastore.Settlement) error

// Ledger is the Settler of an instance without a chain: it pays out into the
// embedded ledger.
func (s *Service) Ledger() Settler { return s.meta.Collect }

// How settling is tried.
const (
	settleBatch = 100
	settleRetry = time.Second // after a failure, and as a net under a lost kick
)

// Run collects what is accepted, soon after it was, with settle, until ctx ends.
// What fails is tried again every second until it expires; failures go to
// report.
func (s *Service) Run(ctx context.Context, settle Settler, report func(task string, err error)) {
	retry := time.NewTicker(settleRetry)
	defer retry.Stop()
	for {
		if err := s.Settle(ctx, settle); err != nil && ctx.Err() == nil {
			report("settle", err)
			select { // not at once again, whatever is accepted meanwhile
			case <-ctx.Done():
				return
			case <-retry.C:
				continue
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-s.kick:
		case <-retry.C:
		}
	}
}

// Settle offers all settlements that are pending now to settle, those that
// expire first at first, each once. It goes on past failures and returns them
// joined.
func (s *Service) Settle(ctx context.Context, settle Settler) error {
	var (
		last metastore.Settlement
		errs []error
	)
	for ctx.Err() == nil {
		pending, err := s.meta.Settlements(ctx, last, settleBatch)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		for _, p := range pending {
			if err := s.settleOne(ctx, settle, p); err != nil {
				errs = append(errs, err)
			}
			last = p
		}
		if len(pending) < settleBatch {
			break
		}
	}
	return errors.Join(errs...)
}

// settleOne collects one settlement, unless it has expired while others were.
func (s *Service) settleOne(ctx context.Context, settle Settler, p metastore.Settlement) error {
	if !p.Expires.After(s.meta.Now()) {
		return nil
	}
	if err := settle(ctx, p); err != nil {
		return fmt.Errorf("settling payment %d of channel %.6s: %w", p.Sequence, p.Channel, err)
	}
	return s.meta.Settle(ctx, p.Channel, p.Sequence, p.Amount)
}

// wake asks Run to look for settlements now.
func (s *Service) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}
