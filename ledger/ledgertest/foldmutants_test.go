package ledgertest_test

import (
	"context"
	"errors"
	"testing"

	"sluice/database/dbtest"
	"sluice/ledger"
)

func TestBrokenFoldsAreCaught(t *testing.T) {
	catch(t, []dbtest.Mutant{
		{Name: "folds sales into nothing", Break: func(h dbtest.Handle, path string) dbtest.Handle {
			return dbtest.AroundPurge(h, path, `SELECT 1`, `UPDATE channels SET folded = 0`)
		}, Caught: []string{"payments/fold", "payments/fold-in-batches"}},
		{Name: "folds sales twice", Break: func(h dbtest.Handle, path string) dbtest.Handle {
			return dbtest.AroundPurge(h, path, `SELECT 1`, `UPDATE channels SET folded = 2 * folded`)
		}, Caught: []string{"payments/fold", "payments/fold-in-batches"}},
		{Name: "loses returns", Break: func(h dbtest.Handle, path string) dbtest.Handle {
			return dbtest.AroundPurge(h, path, `DELETE FROM sales WHERE count < 0`, `SELECT 1`)
		}, Caught: []string{"payments/fold", "payments/fold-in-batches"}},
		{Name: "folds sales too early", Break: func(h dbtest.Handle, path string) dbtest.Handle {
			return dbtest.AroundPurge(h, path, `UPDATE sales SET at = 0 WHERE session IS NULL`, `SELECT 1`)
		}, Caught: []string{"payments/fold"}},
		{Name: "folds sales to live sessions", Break: func(h dbtest.Handle, path string) dbtest.Handle {
			return dbtest.AroundPurge(h, path, `UPDATE sales SET session = NULL, at = 0`, `SELECT 1`)
		}, Caught: []string{"payments/fold"}},
		{Name: "forgets the channels", Break: func(h dbtest.Handle, path string) dbtest.Handle {
			return forgetsChannels{h, path}
		}, Caught: []string{"channels/racing"}},
		{Name: "returns a channel of another request as the opened one", Break: func(h dbtest.Handle, _ string) dbtest.Handle {
			return opensAny{h}
		}, Caught: []string{"idempotency/channel"}},
	})
}

// forgetsChannels counts no opened channel.
type forgetsChannels struct {
	dbtest.Handle
	path string
}

func (s forgetsChannels) OpenChannel(ctx context.Context, c ledger.Channel, idem *ledger.Idempotency) (ledger.Channel, error) {
	out, err := s.Handle.OpenChannel(ctx, c, idem)
	return out, errors.Join(err, dbtest.Query(ctx, s.path, `UPDATE usage SET channels = 0`))
}

// opensAny ignores which request opened a channel.
type opensAny struct{ dbtest.Handle }

func (s opensAny) RecordedChannel(ctx context.Context, idem ledger.Idempotency) (ledger.Channel, error) {
	c, err := s.Handle.RecordedChannel(ctx, idem)
	if errors.Is(err, ledger.ErrIdempotencyReuse) {
		err = nil
	}
	return c, err
}
