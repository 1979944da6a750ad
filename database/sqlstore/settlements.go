package sqlstore

import (
	"context"

	"sluice/ledger"
)

// Settlements implements ledger.Channels.
func (s *Ledger) Settlements(ctx context.Context, after ledger.Settlement, limit int) ([]ledger.Settlement, error) {
	var since int64
	if after.Channel != "" {
		since = after.Expires.UnixMicro()
	}
	return resultOf(ctx, s.read, func(t moneyTx) ([]ledger.Settlement, error) {
		var one ledger.Settlement
		return collect(t.tx, `SELECT channel, sequence, amount, proof, expires FROM settlements
			WHERE (expires, channel) > ($1, $2) ORDER BY expires, channel LIMIT ($3 + 0)`,
			args{since, []byte(after.Channel), int64(limit)},
			args{&one.Channel, (*integer)(&one.Sequence), (*integer)(&one.Amount), &one.Proof, (*instant)(&one.Expires)}, &one)
	})
}
