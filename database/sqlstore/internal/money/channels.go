package money

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/usage"
	"sluice/ledger"
)

// channelColumns are a channel's columns, in channelFields' order.
const channelColumns = `id, payment_channel_id, sender, receiver, asset, deposit,
	accepted, sequence, proof, credit, settled, closed, created, expires, owner,
	submitted, stopped, withdrawn, next_sequence, ledger, read_at,
	collected, elsewhere, form, chain_created`

// channelFields returns the destinations of channelColumns.
func channelFields(c *ledger.Channel) engine.Args {
	return engine.Args{
		&c.ID, (*engine.Integer)(&c.PaymentChannelID), &c.Sender, &c.Receiver, &c.Asset, (*engine.Integer)(&c.Deposit),
		(*engine.Integer)(&c.Accepted), (*engine.Integer)(&c.Sequence), &c.Proof, (*engine.Integer)(&c.Credit), (*engine.Integer)(&c.Settled),
		(*engine.Instant)(&c.Closed), (*engine.Instant)(&c.Created), (*engine.Instant)(&c.Expires), (*engine.OptionalText)(&c.Owner),
		(*engine.Integer)(&c.Submitted), (*engine.OptionalText)(&c.Stopped),
		(*engine.Integer)(&c.Withdrawn), (*engine.Integer)(&c.NextSequence), (*engine.Instant)(&c.ChainTime), (*engine.Instant)(&c.Read),
		(*engine.Integer)(&c.Collected), (*engine.Integer)(&c.Elsewhere), (*engine.OptionalText)(&c.Form), (*engine.Instant)(&c.ChainCreated),
	}
}

// OpenChannel implements ledger.Channels. It also returns ErrExists if the id is in use.
func (s *Ledger) OpenChannel(ctx context.Context, c ledger.Channel, idem *database.Idempotency) (ledger.Channel, error) {
	return s.writeChannel(ctx, func(t tx) (ledger.Channel, error) {
		return once(t, idem, outcomeOfChannel, func() (ledger.Channel, error) { return t.addChannel(c) })
	})
}

// RecordedChannel implements ledger.Channels.
func (s *Ledger) RecordedChannel(ctx context.Context, idem database.Idempotency) (ledger.Channel, error) {
	return s.writeChannel(ctx, func(t tx) (ledger.Channel, error) {
		return once(t, &idem, outcomeOfChannel, func() (ledger.Channel, error) {
			return ledger.Channel{}, fmt.Errorf("channel: %w", database.ErrNotFound)
		})
	})
}

// writeChannel runs a transaction that returns a channel.
func (s *Ledger) writeChannel(ctx context.Context, fn func(tx) (ledger.Channel, error)) (ledger.Channel, error) {
	return engine.ResultOf(ctx, s.in.WriteLocked, fn)
}

func (t tx) addChannel(c ledger.Channel) (ledger.Channel, error) {
	// The name leaves the sender out, because a channel may be bound to one later.
	if err := t.Lock("channel", strconv.FormatInt(c.PaymentChannelID, 10), c.Receiver, c.Asset); err != nil {
		return c, err
	}
	taken, err := t.channelTaken(c)
	if err != nil {
		return c, err
	}
	if taken {
		return c, fmt.Errorf("channel: %w", database.ErrExists)
	}
	c = ledger.Channel{
		ID: c.ID, PaymentChannelID: c.PaymentChannelID, Sender: c.Sender, Receiver: c.Receiver, Asset: c.Asset,
		Deposit: c.Deposit, Owner: c.Owner, Created: t.Now, Expires: engine.Truncate(c.Expires),
		Withdrawn: c.Withdrawn, NextSequence: c.NextSequence, ChainTime: engine.Truncate(c.ChainTime), ChainCreated: engine.Truncate(c.ChainCreated),
	}
	if c.ChainTime.After(t.Now.Add(ledger.MaxChainAhead)) {
		return c, ledger.ErrOutdated
	}
	if !c.ChainTime.IsZero() {
		c.Read, c.Settled, c.Sequence = t.Now, c.Withdrawn, c.NextSequence-1
	}
	n, err := t.Exec(`INSERT INTO channels (id, payment_channel_id, sender, receiver, asset, deposit, created, expires, owner,
			settled, sequence, withdrawn, next_sequence, ledger, read_at, chain_created)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) ON CONFLICT (id) DO NOTHING`,
		[]byte(c.ID), c.PaymentChannelID, []byte(c.Sender), []byte(c.Receiver), []byte(c.Asset), c.Deposit,
		engine.Micros(c.Created), c.Expires.UnixMicro(), engine.OptionalColumn(c.Owner),
		c.Settled, c.Sequence, c.Withdrawn, c.NextSequence, engine.Micros(c.ChainTime), engine.Micros(c.Read), engine.Micros(c.ChainCreated))
	if err != nil {
		return c, err
	}
	if n == 0 {
		return c, fmt.Errorf("channel: %w", database.ErrExists)
	}
	return c, usage.Record(t.Tx, usage.Channel(c.Owner))
}

// channelTaken reports whether there is a channel that conflicts with c. A channel without a
// sender conflicts with the channels of all senders, because it may be bound to any of them.
func (t tx) channelTaken(c ledger.Channel) (bool, error) {
	var one engine.Integer
	parties := engine.Args{c.PaymentChannelID, []byte(c.Receiver), []byte(c.Asset)}
	if c.Sender == "" {
		return t.Row(`SELECT 1 FROM channels WHERE payment_channel_id = $1 AND receiver = $2 AND asset = $3 LIMIT 1`,
			parties, &one)
	}
	return t.Row(`SELECT 1 FROM channels WHERE payment_channel_id = $1 AND receiver = $2 AND asset = $3
		AND sender IN ($4, $5) LIMIT 1`, append(parties, []byte(c.Sender), []byte{}), &one)
}

// Channel implements ledger.Channels.
func (s *Ledger) Channel(ctx context.Context, id string) (ledger.Channel, error) {
	return engine.ResultOf(ctx, s.in.Read, func(t tx) (ledger.Channel, error) {
		var c ledger.Channel
		var pending time.Time
		found, err := t.Row(`SELECT `+channelColumns+`, (SELECT s.expires FROM settlements s WHERE s.channel = channels.id) FROM channels WHERE id = $1`,
			engine.Args{[]byte(id)}, append(channelFields(&c), (*engine.Instant)(&pending))...)
		if err == nil && !found {
			err = t.Missing("channel", id)
		}
		if err != nil {
			return ledger.Channel{}, err
		}
		c.Expired = c.ExpiredAt(t.Now, pending)
		return c, nil
	})
}

func (t tx) channel(id string) (ledger.Channel, error) {
	var c ledger.Channel
	found, err := t.Row(`SELECT `+channelColumns+` FROM channels WHERE id = $1`+t.ForUpdate(), engine.Args{[]byte(id)}, channelFields(&c)...)
	if err == nil && !found {
		err = t.Missing("channel", id)
	}
	if err != nil {
		return ledger.Channel{}, err
	}
	return c, nil
}

// FindChannel implements ledger.Channels.
func (s *Ledger) FindChannel(ctx context.Context, sender, receiver, asset string, paymentChannelID int64) (ledger.Channel, error) {
	return engine.ResultOf(ctx, s.in.Read, func(t tx) (ledger.Channel, error) {
		c, _, err := t.findChannel(sender, receiver, asset, paymentChannelID)
		return c, err
	})
}

// findChannel returns a sender's channel, bound or not bound yet, and why settling has halted.
// There are never two such channels.
func (t tx) findChannel(sender, receiver, asset string, paymentChannelID int64) (c ledger.Channel, halt string, err error) {
	found, err := t.Row(`SELECT `+channelColumns+`, (SELECT value FROM facts WHERE name = $6) FROM channels WHERE payment_channel_id = $1 AND receiver = $2
		AND asset = $3 AND sender IN ($4, $5) ORDER BY sender DESC LIMIT 1`+t.ForUpdate(),
		engine.Args{paymentChannelID, []byte(receiver), []byte(asset), []byte(sender), []byte{}, []byte(haltFact)},
		append(channelFields(&c), (*engine.OptionalText)(&halt))...)
	if err == nil && !found {
		err = ledger.ErrNoChannel
	}
	if err != nil {
		return ledger.Channel{}, "", err
	}
	return c, halt, nil
}

// AddDeposit implements ledger.Channels.
func (s *Ledger) AddDeposit(ctx context.Context, id string, amount int64, idem *database.Idempotency) (ledger.Channel, error) {
	return s.writeChannel(ctx, func(t tx) (ledger.Channel, error) {
		return once(t, idem, outcomeOfChannel, func() (ledger.Channel, error) { return t.addDeposit(id, amount) })
	})
}

func (t tx) addDeposit(id string, amount int64) (ledger.Channel, error) {
	c, err := t.channel(id)
	if err != nil {
		return c, err
	}
	if err := c.Usable(t.Now); err != nil {
		return c, err
	}
	if amount < 0 {
		return c, errNegative
	}
	if amount > math.MaxInt64-c.Deposit {
		return c, fmt.Errorf("deposit: %w", ledger.ErrAmountOverflow)
	}
	c.Deposit += amount
	_, err = t.Exec(`UPDATE channels SET deposit = $2 WHERE id = $1`, []byte(id), c.Deposit)
	c.Proof = nil // it would make a request's record much larger
	return c, err
}

// CloseChannel implements ledger.Channels.
func (s *Ledger) CloseChannel(ctx context.Context, id string) (ledger.Channel, error) {
	return s.writeChannel(ctx, func(t tx) (ledger.Channel, error) {
		c, err := t.channel(id)
		if err != nil || !c.Closed.IsZero() {
			return c, err
		}
		c.Closed = t.Now
		if _, err := t.Exec(`UPDATE channels SET closed = $2 WHERE id = $1`, []byte(id), engine.Micros(c.Closed)); err != nil {
			return c, err
		}
		_, err = t.Exec(`UPDATE settlements SET due = $2 WHERE channel = $1 AND due > $2`, []byte(id), engine.Micros(t.Now))
		return c, err
	})
}

// ChannelSessions implements ledger.Channels. An unknown channel has no sessions.
func (s *Ledger) ChannelSessions(ctx context.Context, id string, limit int) ([]ledger.Session, error) {
	return engine.ResultOf(ctx, s.in.Read, func(t tx) ([]ledger.Session, error) {
		var one ledger.Session
		return engine.Collect(t.Tx, `SELECT `+sessionColumns+` FROM sessions WHERE channel = $1 AND expires > $2
			ORDER BY created DESC, id DESC LIMIT $3`,
			engine.Args{[]byte(id), t.Forgotten(ledger.SessionRetention).UnixMicro(), int64(limit)}, sessionFields(&one), &one)
	})
}
