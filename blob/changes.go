package blob

import (
	"context"

	"sluice/metastore"
)

// Bounds of an owner's changes.
const (
	maxOwnerChanges     = 1_000_000
	maxOwnerChangeBytes = 256 << 20
)

// purgeChanges removes changes that are old, or beyond an owner's bounds, and returns how many.
func (s *Service) purgeChanges(ctx context.Context) (removed int64, err error) {
	const batch = 500
	bounds := metastore.ChangeBounds{Keep: s.opt.ChangesKeep, Changes: maxOwnerChanges, Bytes: maxOwnerChangeBytes}
	pace := s.newPacer()
	for more := true; more; {
		size, err := pace.next(ctx, batch)
		if err != nil {
			return removed, err
		}
		var n int64
		n, more, err = s.meta.PurgeChanges(ctx, bounds, size)
		if removed += n; err != nil {
			return removed, err
		}
	}
	return removed, nil
}
