package ledgertest_test

import (
	"context"
	"errors"
	"testing"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/ledger"
)

// Invariant 42.
func TestBrokenFoldsAreCaught(t *testing.T) {
	catch(t, []dbtest.Mutant{
		{Name: "folds sales into nothing", AfterPurge: `UPDATE channels SET folded = 0`, Caught: []string{"payments/fold", "payments/fold-in-batches"}},
		{Name: "folds sales twice", AfterPurge: `UPDATE channels SET folded = 2 * folded`, Caught: []string{"payments/fold", "payments/fold-in-batches"}},
		{Name: "loses returns", BeforePurge: `DELETE FROM sales WHERE count < 0`, Caught: []string{"payments/fold", "payments/fold-in-batches"}},
		{Name: "folds sales too early", BeforePurge: `UPDATE sales SET at = 0 WHERE session IS NULL`, Caught: []string{"payments/fold"}},
		{Name: "folds sales to live sessions", BeforePurge: `UPDATE sales SET session = NULL, at = 0`, Caught: []string{"payments/fold"}},
		{Name: "forgets the channels", Schema: dbtest.On(`AFTER INSERT ON usage`, `UPDATE usage SET channels = 0`), Caught: []string{"channels/racing"}},
		{Name: "returns a channel of another request as the opened one", Break: dbtest.Broken[opensAny], Caught: []string{"idempotency/channel"}},
	})
}

// opensAny ignores which request opened a channel.
type opensAny struct{ dbtest.Correct }

func (s opensAny) RecordedChannel(ctx context.Context, idem database.Idempotency) (ledger.Channel, error) {
	c, err := s.Correct.RecordedChannel(ctx, idem)
	if errors.Is(err, database.ErrIdempotencyReuse) {
		err = nil
	}
	return c, err
}
