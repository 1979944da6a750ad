package sqlstore

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"

	"sluice/metastore"
)

// ListSessions implements metastore.Inspection.
func (s *Store) ListSessions(ctx context.Context, after string, limit int, bytes int64) (list []metastore.Session, more bool, err error) {
	err = s.snapshotList(ctx, func(t *tx) (err error) {
		list, more, err = t.listSessions(after, newBound(limit, bytes))
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return list, more, nil
}

func (t *tx) listSessions(after string, left bound) ([]metastore.Session, bool, error) {
	// Before the first session: none expires later.
	expires, id := int64(math.MaxInt64), []byte{}
	if after != "" {
		last, err := t.session(after)
		if err != nil {
			return nil, false, err
		}
		expires, id = last.Expires.UnixMicro(), []byte(after)
	}
	var one metastore.Session
	return collectPage(t, left, sessionColumns, fmt.Sprintf(`length(user_identity) + %d`, entryCharge),
		`FROM sessions WHERE expires > $1 AND (expires, id) < ($2, $3)`, `expires DESC, id DESC`,
		args{t.now.Add(-metastore.SessionRetention).UnixMicro(), expires, id}, sessionFields(&one), &one,
		func(s *metastore.Session) int64 { return int64(len(s.UserIdentity)) + entryCharge })
}

// ListChannels implements metastore.Inspection.
func (s *Store) ListChannels(ctx context.Context, after string, limit int) ([]metastore.Channel, error) {
	return resultOf(ctx, s.readList, func(t *tx) ([]metastore.Channel, error) {
		var one metastore.Channel
		return collect(t, `SELECT `+channelColumns+` FROM channels WHERE id > $1 ORDER BY id LIMIT ($2 + 0)`,
			args{[]byte(after), int64(limit)}, channelFields(&one), &one)
	})
}

// Ledger implements metastore.Inspection.
func (s *Store) Ledger(ctx context.Context, channel string) (metastore.Ledger, error) {
	return resultOf(ctx, s.snapshot, func(t *tx) (metastore.Ledger, error) {
		var l metastore.Ledger
		id := args{[]byte(channel)}
		found, err := t.row(`SELECT `+channelColumns+`, folded FROM channels WHERE id = $1`, id,
			append(channelFields(&l.Channel), (*integer)(&l.Folded))...)
		if err == nil && !found {
			err = fmt.Errorf("channel: %w", metastore.ErrNotFound)
		}
		if err != nil {
			return l, err
		}
		pending := metastore.Settlement{Channel: channel}
		found, err = t.row(`SELECT sequence, amount, proof, expires FROM settlements WHERE channel = $1`, id,
			(*integer)(&pending.Sequence), (*integer)(&pending.Amount), &pending.Proof, (*instant)(&pending.Expires))
		if err != nil {
			return l, err
		}
		if found {
			l.Pending = &pending
		}
		paid := metastore.Settlement{Channel: channel}
		found, err = t.row(`SELECT sequence, amount, at FROM ledger WHERE channel = $1 ORDER BY sequence DESC LIMIT 1`, id,
			(*integer)(&paid.Sequence), (*integer)(&paid.Amount), (*instant)(&l.PaidAt))
		if found {
			l.Paid = &paid
		}
		return l, err
	})
}

// Sales implements metastore.Inspection. The id of a sale is that of its row, in hexadecimal.
func (s *Store) Sales(ctx context.Context, channel, before string, limit int) ([]metastore.Sale, error) {
	last, err := hex.DecodeString(before)
	if err != nil {
		return nil, fmt.Errorf("sale %q: %w", before, metastore.ErrNotFound)
	}
	return resultOf(ctx, s.readList, func(t *tx) ([]metastore.Sale, error) {
		var list []metastore.Sale
		var id []byte
		var paid integer
		var one metastore.Sale
		err := t.each(`SELECT id, CASE WHEN sequence IS NULL THEN 0 ELSE 1 END, COALESCE(sequence, 0), session, count, price, at FROM sales
			WHERE channel = $1 AND (id < $2 OR $3 = 0) ORDER BY id DESC LIMIT ($4 + 0)`,
			args{[]byte(channel), last, int64(len(last)), int64(limit)},
			args{&id, &paid, (*integer)(&one.Sequence), (*optionalText)(&one.Session), (*integer)(&one.Count), (*integer)(&one.Price), (*instant)(&one.Time)},
			func() error {
				one.ID, one.Payment = hex.EncodeToString(id), paid != 0
				list = append(list, one)
				return nil
			})
		return list, err
	})
}
