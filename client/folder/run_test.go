package folder_test

import (
	"context"
	"errors"

	"sluice/client/folder"
)

// run runs a batch that add fills.
func run(ctx context.Context, o folder.Options, add func(*folder.Batch) error) (done folder.Summary, err error) {
	b := folder.NewBatch(o)
	if err = add(b); err == nil {
		done, err = b.Run(ctx)
	}
	if failed := b.Close(); failed != nil {
		err = errors.Join(err, failed)
	}
	return done, err
}

func upload(ctx context.Context, from folder.Dir, to folder.Prefix, o folder.Options) (folder.Summary, error) {
	return run(ctx, o, func(b *folder.Batch) error { return b.Upload(ctx, from, to) })
}

func download(ctx context.Context, from folder.Prefix, to folder.Dir, o folder.Options) (folder.Summary, error) {
	return run(ctx, o, func(b *folder.Batch) error { return b.Download(ctx, from, to, "") })
}

func copyBlobs(ctx context.Context, from, to folder.Prefix, o folder.Options) (folder.Summary, error) {
	return run(ctx, o, func(b *folder.Batch) error { return b.Copy(ctx, from, to) })
}

type syncOptions struct {
	folder.Options
	Delete, Force bool
}

func mirror(ctx context.Context, from, to folder.End, o syncOptions) (folder.Summary, error) {
	return run(ctx, o.Options, func(b *folder.Batch) error { return b.Sync(ctx, from, to, o.Delete, o.Force) })
}
