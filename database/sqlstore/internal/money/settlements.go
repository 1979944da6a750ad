package money

import (
	"context"

	"sluice/database/sqlstore/internal/engine"
	"sluice/ledger"
)

// Settlements implements ledger.Settlements.
func (s *Ledger) Settlements(ctx context.Context, after ledger.Settlement, limit int) ([]ledger.Settlement, error) {
	var since int64
	if after.Channel != "" {
		since = after.Expires.UnixMicro()
	}
	return engine.ResultOf(ctx, s.in.Read, func(t tx) ([]ledger.Settlement, error) {
		var one ledger.Settlement
		return engine.Collect(t.Tx, `SELECT channel, sequence, amount, proof, expires FROM settlements
			WHERE (expires, channel) > ($1, $2) ORDER BY expires, channel LIMIT ($3 + 0)`,
			engine.Args{since, []byte(after.Channel), int64(limit)},
			engine.Args{&one.Channel, (*engine.Integer)(&one.Sequence), (*engine.Integer)(&one.Amount), &one.Proof, (*engine.Instant)(&one.Expires)}, &one)
	})
}
