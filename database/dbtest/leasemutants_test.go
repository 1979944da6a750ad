package dbtest_test

import (
	"context"
	"sync"
	"time"

	"sluice/database/dbtest"
)

type leasesToAll struct{ dbtest.Handle }

func (s leasesToAll) Lease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error) {
	_, err := s.Handle.Lease(ctx, name, holder, ttl)
	return err == nil, err
}

type leasesForever struct{ dbtest.Handle }

func (s leasesForever) Lease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error) {
	return s.Handle.Lease(ctx, name, holder, ttl*1000)
}

// renewsNoLease reports that a lease was renewed, but does not renew it.
type renewsNoLease struct {
	dbtest.Handle
	held sync.Map // by holder
}

func (s *renewsNoLease) Lease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error) {
	if _, ok := s.held.Load(holder); ok {
		return true, nil
	}
	held, err := s.Handle.Lease(ctx, name, holder, ttl)
	if held {
		s.held.Store(holder, true)
	}
	return held, err
}

type takesNoLeaseBack struct{ dbtest.Handle }

func (s takesNoLeaseBack) Lease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error) {
	if ttl <= 0 {
		return false, nil
	}
	return s.Handle.Lease(ctx, name, holder, ttl)
}

type ownTime struct{ dbtest.Handle }

func (s ownTime) Now() time.Time { return s.Handle.Now().Add(time.Second) }
