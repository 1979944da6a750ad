package client

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"

	"sluice/micropay"
	"sluice/wire"
)

// Channel is a payment channel: a payer's deposit for the service. Amounts are in asset units. Its
// ID is a capability.
type Channel struct {
	ID               string
	PaymentChannelID uint64 // in micropayments
	Sender           string // the payer's address; "" until a micropayment is accepted
	Receiver         string // the service's address
	Asset            string // the asset's address
	Deposit          uint64
	Accepted         uint64 // sum of all payments
	Credit           uint64 // part of Accepted that is not spent yet
	Settled          uint64 // collected; above Accepted if the chain shows that more was withdrawn
	Refund           uint64 // when it was closed: the part of Deposit that was never accepted
	SellingLimit     uint64 // greatest Accepted - Settled that a payment may lead to; 2^63-1: unknown
	Expired          uint64 // part of Accepted - Settled that can be collected only after a renewal: see RenewChannel
	Elsewhere        uint64 // withdrawn on the chain, and not known to the service
	Sequence         uint64 // the newest accepted micropayment's sequence number
	State            string // "open", "closed", "expired", or "stopped": nothing is sold for now
	Stopped          string // why, in the state "stopped"
	Created          time.Time
	Expires          time.Time

	// Sessions are those that were bought over the channel, the newest 1,000 first. They have no
	// UserIdentity, total and time of creation. SessionsKnown reports whether they could be read.
	Sessions      []Session
	SessionsKnown bool
}

// known returns the amount above which the service sells: the accepted amount, or the amount
// withdrawn on the chain if that is more.
func (ch *Channel) known() uint64 { return max(ch.Accepted, ch.Settled) }

// OpenChannelOptions are the options of OpenChannel. The service has a default for each field that
// is zero.
type OpenChannelOptions struct {
	Sender           string    // the payer's address, which a hosted network requires
	Deposit          uint64    // 0: 1,000,000
	Asset            string    // the asset's address
	Expires          time.Time // zero: in 90 days, or as the operator configured
	PaymentChannelID uint64    // at most 2^63-1; 0: at random
	IdempotencyKey   string    // as in CreateSessionOptions
}

// OpenChannel opens a channel. A hosted network requires a key with the scope channels for the
// sender's account. OpenChannel repeats the request until its outcome is known, and opens only one.
// It returns ErrConflict if there was ever a channel with the same sender, receiver, asset and
// PaymentChannelID.
//
// A service that collects on a chain takes only a channel that the sender has opened there: Sender
// and PaymentChannelID name it and are required, Deposit and Expires are read from the chain and
// must be zero, and it returns ErrNotFound if the chain has no such channel.
func (c *Client) OpenChannel(ctx context.Context, o OpenChannelOptions) (Channel, error) {
	r := newRequest("open a channel", http.MethodPost, channelsPath, idempotent)
	setIdempotencyKey(r, o.IdempotencyKey)
	return c.callChannel(ctx, r, struct {
		UserIdentity     string    `json:"userIdentity,omitempty"`
		Deposit          uint64    `json:"deposit,string,omitempty"`
		Asset            string    `json:"asset,omitempty"`
		Expires          time.Time `json:"expires,omitzero"`
		PaymentChannelID uint64    `json:"paymentChannelId,string,omitempty"`
	}{o.Sender, o.Deposit, o.Asset, o.Expires, o.PaymentChannelID})
}

// Channel returns a channel. It returns ErrNotFound if there is none.
func (c *Client) Channel(ctx context.Context, id string) (Channel, error) {
	return c.onChannel(ctx, id, newRequest("get a channel", http.MethodGet, "", readOnly), nil)
}

// DepositOptions are the options of Deposit.
type DepositOptions struct {
	IdempotencyKey string // as in CreateSessionOptions
}

// Deposit adds amount to an open channel's deposit. It repeats the request until its outcome is
// known, and adds the amount only once. It returns ErrNotFound, or ErrGone if the channel was
// closed or has expired.
func (c *Client) Deposit(ctx context.Context, id string, amount uint64, o DepositOptions) (Channel, error) {
	r := newRequest("add to a deposit", http.MethodPost, "/deposit", idempotent)
	setIdempotencyKey(r, o.IdempotencyKey)
	return c.onChannel(ctx, id, r, struct {
		Amount uint64 `json:"amount,string"`
	}{amount})
}

// Faucet opens a channel for the payer sender with amount as its deposit, or adds amount to the
// deposit for the channel with this PaymentChannelID. If it is 0, the service chooses the channel.
// Only a local instance has a faucet; it returns ErrNotFound if there is none. Faucet sends one
// request, and returns ErrOutcomeUnknown if the response is lost.
func (c *Client) Faucet(ctx context.Context, sender string, amount, paymentChannelID uint64) (Channel, error) {
	r := newRequest("ask the faucet", http.MethodPost, "/v1/local/faucet", once)
	return c.callChannel(ctx, r, struct {
		Sender           string `json:"sender"`
		Amount           uint64 `json:"amount,string"`
		PaymentChannelID uint64 `json:"paymentChannelId,string,omitempty"`
	}{sender, amount, paymentChannelID})
}

// CloseChannel closes a channel and returns the settled and unsettled amounts and the refund. It
// may be repeated. It returns ErrNotFound, or ErrGone if the channel has expired.
func (c *Client) CloseChannel(ctx context.Context, id string) (Channel, error) {
	return c.onChannel(ctx, id, newRequest("close a channel", http.MethodPost, "/close", idempotent), nil)
}

// RenewChannel replaces the channel's newest micropayment, if it can no longer be collected because
// it has expired or the chain refused it. The new one has the accepted amount and a higher sequence
// number. That buys nothing. It repeats the request until its outcome is known. It returns
// ErrNotFound, ErrGone if the channel has expired, ErrPaymentRequired if the micropayment is
// refused, or ErrConflict: with the code wire.CodeNothingExpired there is nothing to renew, and
// with wire.CodeMicropaymentStale the amount is not the accepted one, or the sequence number is not
// higher. Payer.Renew signs the micropayment, and keeps count of it.
func (c *Client) RenewChannel(ctx context.Context, id string, m *micropay.Micropayment) (Channel, error) {
	r := newRequest("renew a payment", http.MethodPost, "/renew", idempotent)
	r.ownEffect = refusesPayment
	return c.onChannel(ctx, id, r, struct {
		MicropaymentUpdate string `json:"micropaymentUpdate"`
	}{m.Base64()})
}

// Reconciliation compares a channel with the chain. Amounts are in asset units. The channels have
// no sessions.
type Reconciliation struct {
	Channel Channel     // as the service had it
	Chain   *ChainState // as the chain has it; nil: it does not exist there
	After   *Channel    // as the service has it after it recorded the chain's state; nil: it did not
}

// ChainState is a channel as a chain has it.
type ChainState struct {
	Deposit      uint64
	Withdrawn    uint64 // by the receiver, ever
	NextSequence uint64 // the least sequence number that is accepted
	Expires      time.Time
}

// Reconcile compares a channel in the service's books with the chain. If write is true, the service
// records the chain's state. A hosted network requires a key with the scope admin for all accounts.
// It returns ErrNotFound if there is no such channel, ErrInvalid without a chain, or ErrUnavailable
// if the chain cannot be read.
func (c *Client) Reconcile(ctx context.Context, id string, write bool) (Reconciliation, error) {
	path, err := channelPath(id)
	if err != nil {
		return Reconciliation{}, err
	}
	r := newRequest("reconcile a channel", http.MethodPost, path+"/reconcile", idempotent)
	body := struct {
		Write bool `json:"write"`
	}{write}
	if err := r.setJSON(body); err != nil {
		return Reconciliation{}, err
	}
	var sent wire.Reconciliation
	var result Reconciliation
	r.check = func() (err error) {
		result, err = parseReconciliation(&sent)
		return err
	}
	_, err = c.call(ctx, r, &sent)
	return result, err
}

func parseReconciliation(w *wire.Reconciliation) (r Reconciliation, err error) {
	if r.Channel, err = parseChannel(&w.Channel); err == nil {
		err = checkChannel(&w.Channel)
	}
	if err == nil && w.After != nil {
		var after Channel
		after, err = parseChannel(w.After)
		r.After, err = &after, cmp.Or(err, checkChannel(w.After))
	}
	if err != nil || w.Chain == nil {
		return r, err
	}
	r.Chain = &ChainState{Expires: w.Chain.Expires}
	for _, n := range []amountMember{
		{"deposit", w.Chain.Deposit, &r.Chain.Deposit},
		{"withdrawn", w.Chain.Withdrawn, &r.Chain.Withdrawn},
		{"nextSequenceNumber", w.Chain.NextSequenceNumber, &r.Chain.NextSequence},
	} {
		if err := n.parse(); err != nil {
			return r, err
		}
	}
	return r, nil
}

const channelsPath = "/v1/sessions/micropaymentchannels"

// channelPath returns a channel's path, or ErrInvalid if the id cannot be one.
func channelPath(id string) (string, error) { return idPath(channelsPath, id, "channel") }

// onChannel sends a request with a path below the channel's, and a body unless it is nil. Its
// response is the channel.
func (c *Client) onChannel(ctx context.Context, id string, r *request, body any) (Channel, error) {
	path, err := channelPath(id)
	if err != nil {
		return Channel{}, err
	}
	r.path = path + r.path
	return c.callChannel(ctx, r, body)
}

// callChannel sends a request with a body, unless it is nil. Its response is a channel.
func (c *Client) callChannel(ctx context.Context, r *request, body any) (Channel, error) {
	if err := r.setJSON(body); err != nil {
		return Channel{}, err
	}
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
		Stopped: w.Stopped, Created: w.Created, Expires: w.Expires, SessionsKnown: w.Sessions != nil,
		SellingLimit: maxAmount,
	}
	for _, s := range w.Sessions {
		ch.Sessions = append(ch.Sessions, Session{ID: s.SessionID, ChunksetsLeft: s.ChunksetsLeft, Expires: s.Expires})
	}
	for _, n := range []amountMember{
		{"paymentChannelId", w.PaymentChannelID, &ch.PaymentChannelID},
		{"deposit", w.Deposit, &ch.Deposit},
		{"accepted", w.Accepted, &ch.Accepted},
		{"credit", w.Credit, &ch.Credit},
		{"settled", w.Settled, &ch.Settled},
		{"sequenceNumber", w.SequenceNumber, &ch.Sequence},
	} {
		if err := n.parse(); err != nil {
			return Channel{}, err
		}
	}
	for _, n := range []amountMember{
		{"refund", w.Refund, &ch.Refund},
		{"sellingLimit", w.SellingLimit, &ch.SellingLimit},
		{"expired", w.Expired, &ch.Expired},
		{"elsewhere", w.Elsewhere, &ch.Elsewhere},
	} {
		if n.value == "" {
			continue
		}
		if err := n.parse(); err != nil {
			return Channel{}, err
		}
	}
	return ch, nil
}

// amountMember is an amount in a response, and where it is stored.
type amountMember struct {
	member, value string
	to            *uint64
}

func (a amountMember) parse() (err error) {
	if *a.to, err = strconv.ParseUint(a.value, 10, 63); err != nil {
		return invalid(a.member, "is not an amount: %s", shown(a.value))
	}
	return nil
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
		checkWord("asset", c.Asset, maxWord), checkWord("state", c.State, maxWord),
		checkLength("stopped", c.Stopped, maxSentence))
}
