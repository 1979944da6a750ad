package client

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"sluice/wire"
)

// Channel is a payment channel: the deposit of a payer for the service. Amounts are in units of its
// asset. Its ID is a capability.
type Channel struct {
	ID               string
	PaymentChannelID uint64 // in micropayments
	Sender           string // address of the payer; "": that of the first accepted micropayment
	Receiver         string // address of the service
	Asset            string // address of the asset
	Deposit          uint64
	Accepted         uint64 // sum of all payments
	Credit           uint64 // part of Accepted that is not spent yet
	Settled          uint64 // part of Accepted that was collected
	Refund           uint64 // of a closed channel: part of Deposit that was never accepted
	Sequence         uint64 // sequence number of the newest accepted micropayment
	State            string // "open", "closed" or "expired"
	Created          time.Time
	Expires          time.Time

	// Sessions are those that were bought over the channel, the newest 1,000 first. They have no
	// UserIdentity, total and time of creation. SessionsKnown reports whether they could be read.
	Sessions      []Session
	SessionsKnown bool
}

// OpenChannelOptions are the options of OpenChannel. What is zero has the default of the service.
type OpenChannelOptions struct {
	Sender           string    // address of the payer, which a hosted network requires
	Deposit          uint64    // 0: 1,000,000
	Asset            string    // address of the asset
	Expires          time.Time // zero: in 90 days, or as the operator configured
	PaymentChannelID uint64    // at most 2^63-1; 0: at random
	IdempotencyKey   string    // as in CreateSessionOptions
}

// OpenChannel opens a channel. A hosted network requires a key with the scope channels for the account
// of the sender. It repeats the request until its outcome is known, and opens only one. It returns
// ErrConflict if there was ever a channel with the same sender, receiver, asset and PaymentChannelID.
func (c *Client) OpenChannel(ctx context.Context, o OpenChannelOptions) (Channel, error) {
	r := newRequest("open a channel", http.MethodPost, channelsPath, idempotent)
	setIdempotencyKey(r, o.IdempotencyKey)
	body := struct {
		UserIdentity     string    `json:"userIdentity,omitempty"`
		Deposit          uint64    `json:"deposit,string,omitempty"`
		Asset            string    `json:"asset,omitempty"`
		Expires          time.Time `json:"expires,omitzero"`
		PaymentChannelID uint64    `json:"paymentChannelId,string,omitempty"`
	}{o.Sender, o.Deposit, o.Asset, o.Expires, o.PaymentChannelID}
	if err := r.setJSON(body); err != nil {
		return Channel{}, err
	}
	return c.callChannel(ctx, r)
}

// Channel returns a channel. It returns ErrNotFound if there is none.
func (c *Client) Channel(ctx context.Context, id string) (Channel, error) {
	path, err := channelPath(id)
	if err != nil {
		return Channel{}, err
	}
	return c.callChannel(ctx, newRequest("get a channel", http.MethodGet, path, readOnly))
}

// DepositOptions are the options of Deposit.
type DepositOptions struct {
	IdempotencyKey string // as in CreateSessionOptions
}

// Deposit adds amount to the deposit of an open channel. It repeats the request until its outcome is
// known, and adds the amount only once. It returns ErrNotFound, or ErrGone if the channel was closed or
// has expired.
func (c *Client) Deposit(ctx context.Context, id string, amount uint64, o DepositOptions) (Channel, error) {
	path, err := channelPath(id)
	if err != nil {
		return Channel{}, err
	}
	r := newRequest("add to a deposit", http.MethodPost, path+"/deposit", idempotent)
	setIdempotencyKey(r, o.IdempotencyKey)
	body := struct {
		Amount uint64 `json:"amount,string"`
	}{amount}
	if err := r.setJSON(body); err != nil {
		return Channel{}, err
	}
	return c.callChannel(ctx, r)
}

// Faucet opens a channel for the payer sender with amount as its deposit, or adds amount to the deposit of one: of
// the channel with this PaymentChannelID or, if it is 0, of one that the service chooses. Only a local instance
// has a faucet; it returns ErrNotFound if there is none. Faucet sends one request, and returns
// ErrOutcomeUnknown if the response is lost.
func (c *Client) Faucet(ctx context.Context, sender string, amount, paymentChannelID uint64) (Channel, error) {
	r := newRequest("ask the faucet", http.MethodPost, "/v1/local/faucet", once)
	body := struct {
		Sender           string `json:"sender"`
		Amount           uint64 `json:"amount,string"`
		PaymentChannelID uint64 `json:"paymentChannelId,string,omitempty"`
	}{sender, amount, paymentChannelID}
	if err := r.setJSON(body); err != nil {
		return Channel{}, err
	}
	return c.callChannel(ctx, r)
}

// CloseChannel closes a channel and returns what was settled, what was not, and the refund. It may be
// repeated. It returns ErrNotFound, or ErrGone if the channel has expired.
func (c *Client) CloseChannel(ctx context.Context, id string) (Channel, error) {
	path, err := channelPath(id)
	if err != nil {
		return Channel{}, err
	}
	return c.callChannel(ctx, newRequest("close a channel", http.MethodPost, path+"/close", idempotent))
}

const channelsPath = "/v1/sessions/micropaymentchannels"

// channelPath returns the path of a channel, or ErrInvalid if the id cannot be one.
func channelPath(id string) (string, error) {
	if id == "" || id == "." || id == ".." {
		return "", fmt.Errorf("client: %w: %q is not the id of a channel", ErrInvalid, id)
	}
	return channelsPath + "/" + url.PathEscape(id), nil
}

// callChannel sends a request whose response is a channel.
func (c *Client) callChannel(ctx context.Context, r *request) (Channel, error) {
	var sent wire.Channel
	var ch Channel
	r.check = func() (err error) {
		ch, err = parseChannel(&sent)
		return cmp.Or(err, checkChannel(&sent))
	}
	_, err := c.call(ctx, r, &sent)
	return ch, err
}

func parseChannel(w *wire.Channel) (Channel, error) {
	ch := Channel{
		ID: w.ChannelID, Sender: w.Sender, Receiver: w.Receiver, Asset: w.Asset, State: w.State,
		Created: w.Created, Expires: w.Expires, SessionsKnown: w.Sessions != nil,
	}
	for _, s := range w.Sessions {
		ch.Sessions = append(ch.Sessions, Session{ID: s.SessionID, ChunksetsLeft: s.ChunksetsLeft, Expires: s.Expires})
	}
	for _, n := range []struct {
		member, value string
		to            *uint64
	}{
		{"paymentChannelId", w.PaymentChannelID, &ch.PaymentChannelID},
		{"deposit", w.Deposit, &ch.Deposit},
		{"accepted", w.Accepted, &ch.Accepted},
		{"credit", w.Credit, &ch.Credit},
		{"settled", w.Settled, &ch.Settled},
		{"sequenceNumber", w.SequenceNumber, &ch.Sequence},
		{"refund", w.Refund, &ch.Refund},
	} {
		if n.member == "refund" && n.value == "" {
			continue
		}
		var err error
		if *n.to, err = strconv.ParseUint(n.value, 10, 63); err != nil {
			return Channel{}, invalid(n.member, "is not an amount: %s", shown(n.value))
		}
	}
	return ch, nil
}

func checkChannel(c *wire.Channel) error {
	if n := len(c.Sessions); n > wire.MaxPageSize {
		return invalid("sessions", "has %d entries, more than %d", n, wire.MaxPageSize)
	}
	for i := range c.Sessions {
		s := &c.Sessions[i]
		if err := checkID("sessionId", s.SessionID); err != nil {
			return err
		}
		if s.ChunksetsLeft < 0 {
			return invalid("chunksetsLeft", "is %d", s.ChunksetsLeft)
		}
	}
	return cmp.Or(checkID("channelId", c.ChannelID), checkWord("sender", c.Sender, maxWord), checkWord("receiver", c.Receiver, maxWord),
		checkWord("asset", c.Asset, maxWord), checkWord("state", c.State, maxWord))
}
