package sqlstore

import (
	"cmp"
	"context"
	"errors"

	"sluice/metastore"
)

// Settlements implements metastore.Channels. A settlement that expired uncollected is kept
// until a newer payment replaces it.
func (s *Store) Settlements(ctx context.Context, after metastore.Settlement, limit int) ([]metastore.Settlement, error) {
	var since int64
	if after.Channel != "" {
		since = after.Expires.UnixMicro()
	}
	return resultOf(ctx, s.read, func(t *tx) ([]metastore.Settlement, error) {
		var one metastore.Settlement
		return collect(t, `SELECT channel, sequence, amount, proof, expires FROM settlements
			WHERE expires > $1 AND (expires, channel) > ($2, $3) ORDER BY expires, channel LIMIT ($4 + 0)`,
			args{t.now.UnixMicro(), since, []byte(after.Channel), int64(limit)},
			args{&one.Channel, (*integer)(&one.Sequence), (*integer)(&one.Amount), &one.Proof, (*instant)(&one.Expires)}, &one)
	})
}

// errNotAccepted is the error of settling a payment that was never accepted.
var errNotAccepted = errors.New("sqlstore: the channel accepted no such payment")

// Settle implements metastore.Channels. Sequence and amount of a channel increase together,
// so it also returns an error if only one of them is that of the newest accepted payment.
func (s *Store) Settle(ctx context.Context, channel string, sequence, amount int64) error {
	return s.write(ctx, func(t *tx) error {
		c, err := t.channel(channel)
		if err != nil {
			return err
		}
		if !accepted(c, sequence, amount) {
			return errNotAccepted
		}
		if _, err := t.exec(`UPDATE channels SET settled = $2 WHERE id = $1 AND settled < $2`, []byte(channel), amount); err != nil {
			return err
		}
		_, err = t.exec(`DELETE FROM settlements WHERE channel = $1 AND sequence <= $2`, []byte(channel), sequence)
		return err
	})
}

// Collect implements metastore.Channels.
func (s *Store) Collect(ctx context.Context, settlement metastore.Settlement) error {
	return s.write(ctx, func(t *tx) error {
		channel := []byte(settlement.Channel)
		if _, err := t.exec(`INSERT INTO ledger (channel, sequence, amount, at) VALUES ($1, $2, $3, $4)
			ON CONFLICT (channel, sequence) DO NOTHING`,
			channel, settlement.Sequence, settlement.Amount, micros(t.now)); err != nil {
			return err
		}
		return t.foldLedger(args{channel}, "($1)")
	})
}

// accepted reports whether a channel can have accepted a payment: its sequence and amount
// increase together.
func accepted(c metastore.Channel, sequence, amount int64) bool {
	order := cmp.Compare(amount, c.Accepted)
	return order <= 0 && order == cmp.Compare(sequence, c.Sequence)
}
