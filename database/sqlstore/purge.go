package sqlstore

import "context"

// Purge implements database.Maintenance. Its steps for blobs and for money share transactions, and each
// step handles up to limit rows.
func (s *Store) Purge(ctx context.Context, limit int) (int, error) {
	n, err := purge(ctx, s.db.writeForDeletion, limit, PurgeIdleUploads, PurgeParts, PurgeEndedUploads, PurgeBlobs, PurgeDeleted, PurgeIdempotency, PurgeStaged)
	if err != nil {
		return 0, err
	}
	// These lock the rows that they find.
	folded, err := purge(ctx, s.db.writeLockedForDeletion, limit, PurgeSessions, FoldOldSales)
	if err != nil {
		return 0, err
	}
	for _, c := range []counts{usageCounts, AccountCounts} {
		rows, err := purge(ctx, s.db.writeLockedForDeletion, limit, c.fold)
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
func purge(ctx context.Context, write func(context.Context, func(*tx) error) error, limit int, steps ...func(*tx, int) (int, error)) (int, error) {
	var total int
	err := write(ctx, func(t *tx) error {
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
