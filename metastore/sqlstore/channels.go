package sqlstore

import (
	"context"
	"fmt"

	"sluice/metastore"
)

// OpenChannel implements metastore.Channels. ErrExists also when the id is
// taken.
func (s *Store) OpenChannel(ctx context.Context, c metastore.Channel, idem *metastore.Idempotency) (metastore.Channel, error) {
	var out metastore.Channel
	err := s.write(ctx, func(t *tx) (err error) {
		out, err = once(t, idem, func() (metastore.Channel, error) { return t.addChannel(c) })
		return err
	})
	if err != nil {
		return metastore.Channel{}, err
	}
	return out, nil
}

func (t *tx) addChannel(c metastore.Channel) (metastore.Channel, error) {
	taken, err := t.channelTaken(c)
	if err != nil {
		return c, err
	}
	if taken {
		return c, fmt.Errorf("channel: %w", metastore.ErrExists)
	}
	c.Created, c.Expires = t.now, truncate(c.Expires)
	n, err := t.exec(`INSERT INTO channels (id, payment_channel_id, sender, receiver, asset, deposit, created, expires)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (id) DO NOTHING`,
		[]byte(c.ID), c.PaymentChannelID, []byte(c.Sender), []byte(c.Receiver), []byte(c.Asset), c.Deposit,
		micros(c.Created), c.Expires.UnixMicro())
	if err == nil && n == 0 {
		err = fmt.Errorf("channel: %w", metastore.ErrExists)
	}
	return c, err
}

// channelTaken reports whether a channel exists that c may not stand beside. A
// channel without a sender may turn out to be anyone's.
func (t *tx) channelTaken(c metastore.Channel) (bool, error) {
	var one integer
	parties := args{c.PaymentChannelID, []byte(c.Receiver), []byte(c.Asset)}
	if c.Sender == "" {
		return t.row(`SELECT 1 FROM channels WHERE payment_channel_id = $1 AND receiver = $2 AND asset = $3 LIMIT 1`,
			parties, &one)
	}
	return t.row(`SELECT 1 FROM channels WHERE payment_channel_id = $1 AND receiver = $2 AND asset = $3
		AND sender IN ($4, $5) LIMIT 1`, append(parties, []byte(c.Sender), []byte{}), &one)
}

// Channel implements metastore.Channels.
func (s *Store) Channel(ctx context.Context, id string) (metastore.Channel, error) {
	c := metastore.Channel{ID: id}
	err := s.read(ctx, func(t *tx) error {
		found, err := t.row(`SELECT payment_channel_id, sender, receiver, asset, deposit, created, expires
			FROM channels WHERE id = $1`, args{[]byte(id)},
			(*integer)(&c.PaymentChannelID), &c.Sender, &c.Receiver, &c.Asset, (*integer)(&c.Deposit),
			(*instant)(&c.Created), (*instant)(&c.Expires))
		if err == nil && !found {
			err = fmt.Errorf("channel: %w", metastore.ErrNotFound)
		}
		return err
	})
	if err != nil {
		return metastore.Channel{}, err
	}
	return c, nil
}
