package sqlstore

import (
	"context"

	"sluice/database"
)

// Census implements database.Maintenance.
func (s *Store) Census(ctx context.Context) (database.Census, error) {
	var c database.Census
	for _, count := range []func(context.Context, *database.Census) error{
		s.CountSessions, s.CountChannels, s.CountExtents, s.CountUploads,
	} {
		if err := count(ctx, &c); err != nil {
			return database.Census{}, err
		}
	}
	return c, nil
}
