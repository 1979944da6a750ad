package folder

import (
	"context"
	"errors"
	"iter"

	"sluice/client"
)

// DeleteListed deletes blobs while they are listed, so that few of them are in memory. After a
// list's error, no other deletion begins. The result is as Run returns it.
func (b *Batch) DeleteListed(ctx context.Context, blobs iter.Seq2[Item, error]) (Summary, error) {
	b.report(Event{Kind: Deleting, Number: -1})
	return b.runListed(ctx, func(yield func(job, error) bool) {
		for item, err := range blobs {
			if !yield(deletion(item, false, &b.o), err) {
				return
			}
		}
	})
}

// runListed runs jobs while they are listed. After a list's error, no other job begins.
func (b *Batch) runListed(ctx context.Context, jobs iter.Seq2[job, error]) (Summary, error) {
	b.dispatch(ctx, b.slots(), func(yield func(job) bool) {
		for j, err := range jobs {
			b.plan(1)
			switch {
			case err != nil && ctx.Err() != nil:
				b.conclude(&job{}, Event{Kind: Interrupted, Err: err})
			case err != nil:
				b.conclude(&job{}, Event{Kind: Failed, Err: err})
			}
			if err != nil || !yield(j) {
				return
			}
		}
	})
	return b.end(ctx, nil)
}

// Delete adds a blob's deletion, or a version's. If it must exist, it fails with client.ErrNotFound
// if there is none, unless the key only permits writes: then nobody can look for it.
func (b *Batch) Delete(of Item, mustExist bool) {
	b.deletions = append(b.deletions, deletion(of, mustExist, &b.o))
}

// deletion returns the job that deletes a blob, or only looks for it.
func deletion(of Item, mustExist bool, o *Options) job {
	return job{source: of, does: Deleted, run: func(ctx context.Context, _ func(done, total int64)) (outcome, error) {
		if mustExist {
			err := exists(ctx, of)
			if err != nil && !errors.Is(err, client.ErrForbidden) && !errors.Is(err, client.ErrUnauthorized) {
				return outcome{}, err
			}
		}
		if o.DryRun {
			return outcome{}, nil
		}
		return outcome{}, of.Client.Delete(ctx, of.Account, of.Name, client.DeleteOptions{Version: of.Version, Bypass: o.Bypass})
	}}
}

// exists returns client.ErrNotFound if there is no such blob or version. HEAD does not distinguish
// a mark from a version that does not exist.
func exists(ctx context.Context, of Item) error {
	if of.Version == "" {
		_, err := of.Client.Head(ctx, of.Account, of.Name)
		return err
	}
	_, err := of.Client.FindVersion(ctx, of.Account, of.Name, of.Version)
	return err
}
