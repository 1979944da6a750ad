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
	r, err := s.RemoveBlob(ctx, metastore.Removal{BlobName: metastore.BlobName{Account: account, Name: name}, Precondition: precondition})
	return r.Existed, err
}

// GarbageBacklog returns the amount of garbage that is due and has not been freed.
func (s *Service) GarbageBacklog(ctx context.Context) (metastore.Backlog, error) {
	return s.meta.GarbageBacklog(ctx, s.opt.GarbageGrace)
}
