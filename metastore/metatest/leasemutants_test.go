package metatest_test

import (
	"context"
	"sync"
	"time"

	"sluice/metastore"
	"sluice/metastore/metatest"
)

type leasesToAll struct{ metatest.Handle }

func (s leasesToAll) Lease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error) {
	_, err := s.Handle.Lease(ctx, name, holder, ttl)
	return err == nil, err
}

type leasesForever struct{ metatest.Handle }

func (s leasesForever) Lease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error) {
	return s.Handle.Lease(ctx, name, holder, ttl*1000)
}

// renewsNoLease reports that a lease was renewed, but does not renew it.
type renewsNoLease struct {
	metatest.Handle
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

type takesNoLeaseBack struct{ metatest.Handle }

func (s takesNoLeaseBack) Lease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error) {
	if ttl <= 0 {
		return false, nil
	}
	return s.Handle.Lease(ctx, name, holder, ttl)
}

type ownTime struct{ metatest.Handle }

func (s ownTime) Now() time.Time { return s.Handle.Now().Add(time.Second) }

type ownSecond struct{ metatest.Handle }

func (s ownSecond) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	b, err := s.Handle.CommitBlob(ctx, b, extents, precondition)
	b.SharedSecond = false
	return b, err
}

func (s ownSecond) Blob(ctx context.Context, account, name string) (metastore.Blob, error) {
	b, err := s.Handle.Blob(ctx, account, name)
	b.SharedSecond = false
	return b, err
}
