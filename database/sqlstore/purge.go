package sqlstore

import (
	"context"

	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/meta"
	"sluice/database/sqlstore/internal/money"
	"sluice/database/sqlstore/internal/requests"
	"sluice/database/sqlstore/internal/usage"
)

// Purge implements database.Maintenance. The steps that delete by age, of blobs and of money, share
// a transaction. Each step handles up to limit rows.
func (s *Store) Purge(ctx context.Context, limit int) (int, error) {
	n, err := purge(ctx, s.db.WriteForDeletion, limit, meta.PurgeIdleUploads, meta.PurgeParts, meta.PurgeEndedUploads, meta.PurgeBlobs, meta.PurgeDeleted, requests.Purge, meta.PurgeStaged)
	if err != nil {
		return 0, err
	}
	// These lock the rows that they find.
	folded, err := purge(ctx, s.db.WriteLockedForDeletion, limit, money.PurgeSessions, money.FoldOldSales)
	if err != nil {
		return 0, err
	}
	for _, c := range []usage.Counts{usage.Owners, meta.AccountCounts} {
		rows, err := purge(ctx, s.db.WriteLockedForDeletion, limit, c.Fold)
		if err != nil {
			return 0, err
		}
		if rows == limit { // otherwise new rows, which appear all the time, can wait
			folded += rows
		}
	}
	return n + folded, nil
}

// purge runs steps in one transaction and returns the number of rows that they handled.
func purge(ctx context.Context, write func(context.Context, func(*engine.Tx) error) error, limit int, steps ...func(*engine.Tx, int) (int, error)) (int, error) {
	var total int
	err := write(ctx, func(t *engine.Tx) error {
		total = 0
		for _, step := range steps {
			n, err := step(t, limit)
			if err != nil {
				return err
			}
			total += n
		}
		return nil
	})
	return total, err
}
