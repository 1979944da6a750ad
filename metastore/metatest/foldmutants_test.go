package metatest_test

import (
	"context"
	"errors"
	"testing"

	"sluice/ledger"
	"sluice/metastore"
	"sluice/metastore/metatest"
)

func TestBrokenFoldsAreCaught(t *testing.T) {
	catch(t, []mutant{
		{"folds sales into nothing", func(h metatest.Handle, path string) metatest.Handle {
			return purges{h, path, `SELECT 1`, `UPDATE channels SET folded = 0`}
		}, []string{"payments/fold", "payments/fold-in-batches"}},
		{"folds sales twice", func(h metatest.Handle, path string) metatest.Handle {
			return purges{h, path, `SELECT 1`, `UPDATE channels SET folded = 2 * folded`}
		}, []string{"payments/fold", "payments/fold-in-batches"}},
		{"loses returns", func(h metatest.Handle, path string) metatest.Handle {
			return purges{h, path, `DELETE FROM sales WHERE count < 0`, `SELECT 1`}
		}, []string{"payments/fold", "payments/fold-in-batches"}},
		{"folds sales too early", func(h metatest.Handle, path string) metatest.Handle {
			return purges{h, path, `UPDATE sales SET at = 0 WHERE session IS NULL`, `SELECT 1`}
		}, []string{"payments/fold"}},
		{"folds sales to live sessions", func(h metatest.Handle, path string) metatest.Handle {
			return purges{h, path, `UPDATE sales SET session = NULL, at = 0`, `SELECT 1`}
		}, []string{"payments/fold"}},
		{"adds up usage twice", func(h metatest.Handle, path string) metatest.Handle {
			return purges{h, path, `SELECT 1`, `UPDATE usage_sums SET bytes = 2 * bytes`}
		}, []string{"usage/many-rows"}},
		{"forgets the names", func(h metatest.Handle, path string) metatest.Handle {
			return counts{h, path, `UPDATE usage SET names = 0`}
		}, []string{"usage/objects"}},
		{"forgets the objects", func(h metatest.Handle, path string) metatest.Handle {
			return counts{h, path, `UPDATE usage SET objects = 0`}
		}, []string{"usage/objects"}},
		{"counts an overwritten blob twice", func(h metatest.Handle, path string) metatest.Handle {
			return counts{h, path, `UPDATE usage SET objects = 1 WHERE objects = 0 AND bytes > 0`}
		}, []string{"usage/objects"}},
		{"forgets the channels", func(h metatest.Handle, path string) metatest.Handle {
			return countsChannels{h, path, `UPDATE usage SET channels = 0`}
		}, []string{"usage/channels", "channels/racing"}},
		{"counts a repeated open", func(h metatest.Handle, path string) metatest.Handle {
			return countsRepeats{h, path}
		}, []string{"usage/channels"}},
		{"returns a channel of another request as the opened one", func(h metatest.Handle, _ string) metatest.Handle {
			return opensAny{h}
		}, []string{"idempotency/channel"}},
		{"forgets the garbage", func(h metatest.Handle, path string) metatest.Handle {
			return purges{h, path, `UPDATE usage SET retained = 0`, `SELECT 1`}
		}, []string{"usage/retained", "model/history"}},
		{"releases no garbage", func(h metatest.Handle, path string) metatest.Handle {
			return dropsUncounted{h, path}
		}, []string{"usage/retained", "model/history"}},
		{"keeps the parts of ended uploads", func(h metatest.Handle, path string) metatest.Handle {
			return keepsParts{h, path}
		}, []string{"uploads/outcome"}},
		{"forgets the sums", func(h metatest.Handle, path string) metatest.Handle {
			return purges{h, path, `DELETE FROM usage_sums`, `SELECT 1`}
		}, []string{"usage/many-rows"}},
	})
}

// purges changes the database before and after each purge.
type purges struct {
	metatest.Handle
	path, before, after string
}

func (s purges) Purge(ctx context.Context, limit int) (int, error) {
	if err := query(ctx, s.path, s.before); err != nil {
		return 0, err
	}
	n, err := s.Handle.Purge(ctx, limit)
	return n, errors.Join(err, query(ctx, s.path, s.after))
}

// counts changes the rows of usage after each commit.
type counts struct {
	metatest.Handle
	path, after string
}

func (s counts) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	out, err := s.Handle.CommitBlob(ctx, b, extents, precondition)
	return out, errors.Join(err, query(ctx, s.path, s.after))
}

// countsChannels changes the rows of usage after each channel is opened.
type countsChannels struct {
	metatest.Handle
	path, after string
}

func (s countsChannels) OpenChannel(ctx context.Context, c ledger.Channel, idem *ledger.Idempotency) (ledger.Channel, error) {
	out, err := s.Handle.OpenChannel(ctx, c, idem)
	return out, errors.Join(err, query(ctx, s.path, s.after))
}

// countsRepeats counts a channel again that was opened before.
type countsRepeats struct {
	metatest.Handle
	path string
}

func (s countsRepeats) OpenChannel(ctx context.Context, c ledger.Channel, idem *ledger.Idempotency) (ledger.Channel, error) {
	out, err := s.Handle.OpenChannel(ctx, c, idem)
	if err == nil && out.ID != c.ID {
		err = query(ctx, s.path, `UPDATE usage SET channels = channels + 1 WHERE owner = $1`, []byte(out.Owner))
	}
	return out, err
}

// opensAny ignores which request opened a channel.
type opensAny struct{ metatest.Handle }

func (s opensAny) RecordedChannel(ctx context.Context, idem ledger.Idempotency) (ledger.Channel, error) {
	c, err := s.Handle.RecordedChannel(ctx, idem)
	if errors.Is(err, ledger.ErrIdempotencyReuse) {
		err = nil
	}
	return c, err
}

// dropsUncounted drops garbage of which its owner stays charged.
type dropsUncounted struct {
	metatest.Handle
	path string
}

func (s dropsUncounted) DropContents(ctx context.Context, contents []metastore.ContentID) error {
	return errors.Join(query(ctx, s.path, `UPDATE garbage SET charge = 0`), s.Handle.DropContents(ctx, contents))
}

func (s dropsUncounted) DropContent(ctx context.Context, content metastore.ContentID) error {
	return errors.Join(query(ctx, s.path, `UPDATE garbage SET owner = NULL`), s.Handle.DropContent(ctx, content))
}

// keepsParts returns the parts of an upload also after its end.
type keepsParts struct {
	metatest.Handle
	path string
}

func (s keepsParts) Parts(ctx context.Context, uploadID string, after, limit int) ([]metastore.Part, error) {
	u, err := s.Upload(ctx, uploadID)
	if err == nil && u.State != metastore.UploadOpen && after < 0 {
		return []metastore.Part{{Size: u.Bytes}}, nil
	}
	return s.Handle.Parts(ctx, uploadID, after, limit)
}
