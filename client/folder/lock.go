package folder

import (
	"context"
	"errors"
	"iter"

	"sluice/client"
)

// ErrNoVersions is the reason why a blob cannot be locked.
var ErrNoVersions = errors.New("the account keeps no versions: sluice bucket versions turns them on, and locks")

// LockListed changes locks while it lists the blobs. An item without a version means the current
// one. After a list's error, no other change begins. The result is as Run returns it.
func (b *Batch) LockListed(ctx context.Context, blobs iter.Seq2[Item, error], change client.LockOptions) (Summary, error) {
	return b.runListed(ctx, func(yield func(job, error) bool) {
		for item, err := range blobs {
			run := func(ctx context.Context, _ func(done, total int64)) (outcome, error) {
				return outcome{}, lock(ctx, item, change, b.o.DryRun)
			}
			if !yield(job{source: item, does: Locked, run: run}, err) {
				return
			}
		}
	})
}

func lock(ctx context.Context, of Item, change client.LockOptions, dryRun bool) error {
	if of.Version == "" {
		b, err := of.Client.Head(ctx, of.Account, of.Name)
		if err != nil {
			return err
		}
		if of.Version = b.Version; of.Version == "" {
			return ErrNoVersions
		}
	}
	if dryRun {
		return nil
	}
	_, err := of.Client.SetLock(ctx, of.Account, of.Name, of.Version, change)
	return err
}
