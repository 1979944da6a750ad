package blob

import (
	"context"

	"sluice/metastore"
)

// Delete removes a blob, which need not exist, durably. It frees the bytes before it returns,
// unless the blob is being read or there is a grace period. precondition may be nil.
func (s *Service) Delete(ctx context.Context, account, name string, precondition metastore.Precondition) error {
	_, err := s.Remove(ctx, account, name, precondition)
	return err
}

// Remove is Delete, and reports whether there was a blob.
func (s *Service) Remove(ctx context.Context, account, name string, precondition metastore.Precondition) (existed bool, err error) {
	var garbage metastore.ContentID
	err = s.withRelief(func() (err error) {
		garbage, existed, err = s.meta.DeleteBlob(ctx, account, name, precondition)
		return err
	})
	if err != nil || garbage == (metastore.ContentID{}) {
		return existed, err
	}
	s.freeNow(ctx, garbage)
	return existed, nil
}

// GarbageBacklog returns the amount of garbage that is due and has not been freed.
func (s *Service) GarbageBacklog(ctx context.Context) (metastore.Backlog, error) {
	return s.meta.GarbageBacklog(ctx, s.opt.GarbageGrace)
}
