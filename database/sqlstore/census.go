package sqlstore

import (
	"context"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/meta"
	"sluice/database/sqlstore/internal/money"
)

// Census implements database.Maintenance.
func (s *Store) Census(ctx context.Context) (database.Census, error) {
	var c database.Census
	for _, count := range []func(context.Context, *engine.DB, *database.Census) error{
		money.CountSessions, money.CountChannels, meta.CountExtents, meta.CountUploads,
	} {
		if err := count(ctx, s.db, &c); err != nil {
			return database.Census{}, err
		}
	}
	return c, nil
}
