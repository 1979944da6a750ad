package money

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/ledger"
)

// ListSessions implements ledger.Inspection.
func (s *Ledger) ListSessions(ctx context.Context, after string, limit int, bytes int64) (list []ledger.Session, more bool, err error) {
	err = s.in.SnapshotList(ctx, func(t tx) (err error) {
		list, more, err = t.listSessions(after, engine.NewBound(limit, bytes))
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return list, more, nil
}

func (t tx) listSessions(after string, left engine.Bound) ([]ledger.Session, bool, error) {
	// Before the first session: none expires later.
	expires, id := int64(math.MaxInt64), []byte{}
	if after != "" {
		last, err := t.session(after)
		if err != nil {
			return nil, false, err
		}
		expires, id = last.Expires.UnixMicro(), []byte(after)
	}
	var one ledger.Session
	return engine.CollectPage(t.Tx, left, sessionColumns, fmt.Sprintf(`length(user_identity) + %d`, database.EntryCharge),
		`FROM sessions WHERE expires > $1 AND (expires, id) < ($2, $3)`, `expires DESC, id DESC`,
		engine.Args{t.Forgotten(ledger.SessionRetention).UnixMicro(), expires, id}, sessionFields(&one), &one,
		func(s *ledger.Session) int64 { return int64(len(s.UserIdentity)) + database.EntryCharge })
}

// ListChannels implements ledger.Inspection.
func (s *Ledger) ListChannels(ctx context.Context, after string, limit int) ([]ledger.Channel, error) {
	return engine.ResultOf(ctx, s.in.ReadList, func(t tx) ([]ledger.Channel, error) {
		var one ledger.Channel
		return engine.Collect(t.Tx, `SELECT `+channelColumns+` FROM channels WHERE id > $1 ORDER BY id LIMIT ($2 + 0)`,
			engine.Args{[]byte(after), int64(limit)}, channelFields(&one), &one)
	})
}

// Statement implements ledger.Inspection.
func (s *Ledger) Statement(ctx context.Context, channel string) (ledger.Statement, error) {
	return engine.ResultOf(ctx, s.in.Snapshot, func(t tx) (ledger.Statement, error) {
		var l ledger.Statement
		id := engine.Args{[]byte(channel)}
		found, err := t.Row(`SELECT `+channelColumns+`, folded FROM channels WHERE id = $1`, id,
			append(channelFields(&l.Channel), (*engine.Integer)(&l.Folded))...)
		if err == nil && !found {
			err = t.Missing("channel", channel)
		}
		if err != nil {
			return l, err
		}
		pending := ledger.Settlement{Channel: channel}
		found, err = t.Row(`SELECT sequence, amount, proof, expires FROM settlements WHERE channel = $1`, id,
			(*engine.Integer)(&pending.Sequence), (*engine.Integer)(&pending.Amount), &pending.Proof, (*engine.Instant)(&pending.Expires))
		if err != nil {
			return l, err
		}
		if found {
			l.Pending = &pending
		}
		paid := ledger.Settlement{Channel: channel}
		found, err = t.Row(`SELECT sequence, amount, at FROM ledger WHERE channel = $1 ORDER BY sequence DESC LIMIT 1`, id,
			(*engine.Integer)(&paid.Sequence), (*engine.Integer)(&paid.Amount), (*engine.Instant)(&l.BookedAt))
		if found {
			l.Booked = &paid
		}
		return l, err
	})
}

// Sales implements ledger.Inspection. A sale's id is its row's id, in hexadecimal.
func (s *Ledger) Sales(ctx context.Context, channel, before string, limit int) ([]ledger.Sale, error) {
	last, err := hex.DecodeString(before)
	if err != nil {
		return nil, fmt.Errorf("sale %q: %w", before, database.ErrNotFound)
	}
	return engine.ResultOf(ctx, s.in.ReadList, func(t tx) ([]ledger.Sale, error) {
		var list []ledger.Sale
		var id []byte
		var paid engine.Integer
		var one ledger.Sale
		err := t.Each(`SELECT id, CASE WHEN sequence IS NULL THEN 0 ELSE 1 END, COALESCE(sequence, 0), session, count, price, at FROM sales
			WHERE channel = $1 AND (id < $2 OR $3 = 0) ORDER BY id DESC LIMIT ($4 + 0)`,
			engine.Args{[]byte(channel), last, int64(len(last)), int64(limit)},
			engine.Args{&id, &paid, (*engine.Integer)(&one.Sequence), (*engine.OptionalText)(&one.Session), (*engine.Integer)(&one.Count), (*engine.Integer)(&one.Price), (*engine.Instant)(&one.Time)},
			func() error {
				one.ID, one.Payment = hex.EncodeToString(id), paid != 0
				list = append(list, one)
				return nil
			})
		return list, err
	})
}
