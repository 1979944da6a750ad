package instance

import (
	"context"
	"errors"

	"sluice/database"
	"sluice/database/whole"
	"sluice/internal/storage"
)

// ErrHosted is returned by Reset for an instance that has served a network.
var ErrHosted = errors.New("it has API keys or has run with --profile hosted, so it is not deleted by one command")

// Reset deletes a local instance, which must be in the data folder completely. It locks the folder,
// checks that the instance was never hosted, and calls confirm before it deletes anything; an error
// of confirm is returned, and nothing is deleted. The instance is deleted completely or not at all:
// after an interruption, the next process that opens the folder completes it. The folder itself
// remains, with all other files in it.
//
// It returns ErrHosted, storage.ErrNoInstance, or datadir.ErrInUse if a process uses the folder.
func Reset(ctx context.Context, data string, confirm func() error) error {
	return storage.Reset(data, func(meta whole.Database) error {
		_, err := meta.Property(ctx, storage.HostedProperty)
		if err == nil {
			return ErrHosted
		}
		if !errors.Is(err, database.ErrNotFound) {
			return err
		}
		keys, err := meta.ListKeys(ctx, "", 1)
		if err != nil {
			return err
		}
		if len(keys) > 0 {
			return ErrHosted
		}
		return confirm()
	})
}
