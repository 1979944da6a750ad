package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"sluice/access"
	"sluice/blob"
	"sluice/database"
	"sluice/exchange"
	"sluice/ledger"
	"sluice/micropay"
	"sluice/paychan"
	"sluice/wire"
)

// openChannelBody is a request's body to open a channel. The public client sends no member.
type openChannelBody struct {
	UserIdentity     *string `json:"userIdentity"`
	Deposit          *amount `json:"deposit"`
	Asset            *string `json:"asset"`
	Expires          string  `json:"expires"`
	PaymentChannelID *amount `json:"paymentChannelId"`
}

// errUnboundChannel refuses a channel without a sender, which would be bound to the first payer:
// nobody else may spend the key owner's deposit.
var errUnboundChannel = fmt.Errorf("%w: userIdentity is required on a hosted network: it is the address that will pay over the channel", exchange.ErrParameter)

func (s *Server) openChannel(x *call) error {
	var in openChannelBody
	body, err := x.readJSON(&in)
	if err != nil {
		return err
	}
	open := paychan.OpenOptions{
		Deposit:          (*int64)(in.Deposit),
		PaymentChannelID: (*int64)(in.PaymentChannelID),
	}
	if open.Sender, err = address("userIdentity", in.UserIdentity); err != nil {
		return err
	}
	if open.Asset, err = address("asset", in.Asset); err != nil {
		return err
	}
	if open.Expires, err = parseTime("expires", in.Expires); err != nil {
		return err
	}
	if !x.Local && open.Sender == "" {
		return errUnboundChannel
	}
	if !x.Local {
		account, err := blob.ParseAccount(open.Sender)
		if err != nil {
			return err
		}
		if err := x.Require(access.ScopeChannels, account, ""); err != nil {
			return err
		}
	}
	idem, err := ownedIdempotency(x, "open-channel", "", body)
	if err != nil {
		return err
	}
	open.Owner = x.Owner()
	opened, err := s.openWithinQuota(x, open, idem)
	if err != nil {
		return inDoubt(err, doubtError{channelID: opened.ID, retryable: idem != nil})
	}
	return s.writeChanged(x, http.StatusCreated, opened)
}

// openWithinQuota opens a channel if the quota of its owner allows it.
func (s *Server) openWithinQuota(x *call, open paychan.OpenOptions, idem *database.Idempotency) (ledger.Channel, error) {
	ctx := x.Request.Context()
	reservation, refused := x.Allowance.ReserveChannel(ctx, idem != nil)
	return s.withinQuota(ctx, reservation, refused, idem, func() (ledger.Channel, error) { return s.channels.Open(ctx, open, idem) })
}

// depositWithinQuota adds to a channel's deposit if the caller's quota allows the request's record.
// A request without an idem is not recorded.
func (s *Server) depositWithinQuota(x *call, id string, amount int64, idem *database.Idempotency) (ledger.Channel, error) {
	ctx := x.Request.Context()
	if idem == nil {
		return s.channels.Deposit(ctx, id, amount, nil)
	}
	reservation, refused := x.Allowance.ReserveRecord(ctx)
	return s.withinQuota(ctx, reservation, refused, idem, func() (ledger.Channel, error) { return s.channels.Deposit(ctx, id, amount, idem) })
}

// withinQuota calls do, which is recorded for idem, unless its reservation was refused. A repeated
// request that has taken effect needs no quota.
func (s *Server) withinQuota(ctx context.Context, reservation *access.Reservation, refused error, idem *database.Idempotency,
	do func() (ledger.Channel, error)) (ledger.Channel, error) {
	if errors.Is(refused, access.ErrQuota) && idem != nil {
		recorded, err := s.channels.Recorded(ctx, *idem)
		if !errors.Is(err, database.ErrNotFound) {
			return recorded, err
		}
	}
	if refused != nil {
		return ledger.Channel{}, refused
	}
	done, err := do()
	exchange.Confirm(reservation, err)
	return done, err
}

// address parses an optional address in a JSON body. It returns "" if it is absent.
func address(member string, sent *string) (string, error) {
	if sent == nil {
		return "", nil
	}
	canonical, err := micropay.ParseAddress(*sent)
	if err != nil {
		return "", fmt.Errorf("%w: %s must be an address: 0x and 1 to 64 hexadecimal digits", exchange.ErrParameter, member)
	}
	return canonical.String(), nil
}

func (s *Server) getChannel(x *call) error {
	found, err := s.channels.Get(x.Request.Context(), x.params.Get("channelId"))
	if err != nil {
		return channelError(err)
	}
	sessions, err := s.channelSessions(x.Request.Context(), found.ID)
	if err != nil {
		return err
	}
	return s.writeChannel(x, http.StatusOK, found, sessions)
}

// depositBody is a request's body to increase a deposit.
type depositBody struct {
	Amount *amount `json:"amount"`
}

func (s *Server) addDeposit(x *call) error {
	var in depositBody
	body, err := x.readJSON(&in)
	if err != nil {
		return err
	}
	if in.Amount == nil {
		return missingMember("amount")
	}
	id := x.params.Get("channelId")
	idem, err := ownedIdempotency(x, "add-deposit", id, body)
	if err != nil {
		return err
	}
	c, err := s.depositWithinQuota(x, id, int64(*in.Amount), idem)
	if err != nil {
		return inDoubt(channelError(err), doubtError{retryable: idem != nil})
	}
	return s.writeChanged(x, http.StatusOK, c)
}

func (s *Server) closeChannel(x *call) error {
	var nothing struct{}
	if _, err := x.readJSON(&nothing); err != nil {
		return err
	}
	c, err := s.channels.Close(x.Request.Context(), x.params.Get("channelId"))
	if err != nil {
		return channelError(err)
	}
	return s.writeChanged(x, http.StatusOK, c)
}

func (s *Server) renewPayment(x *call) error {
	var in wire.RenewPayment
	if _, err := x.readJSON(&in); err != nil {
		return err
	}
	if in.MicropaymentUpdate == nil {
		return missingMember("micropaymentUpdate")
	}
	payment, err := s.channels.Verify(x.Request.Context(), *in.MicropaymentUpdate, x.affordSignatures)
	if err != nil {
		return err
	}
	c, err := s.channels.Renew(x.Request.Context(), x.params.Get("channelId"), payment)
	if err != nil { // a renewal has no second effect, however often it is sent
		return inDoubt(channelError(err), doubtError{retryable: true})
	}
	return s.writeChanged(x, http.StatusOK, c)
}

func (s *Server) reconcileChannel(x *call) error {
	var in wire.ReconcileChannel
	if _, err := x.readJSON(&in); err != nil {
		return err
	}
	r, err := s.channels.Reconcile(x.Request.Context(), x.params.Get("channelId"), in.Write)
	if err != nil { // it records the chain's state, however often it is called
		return inDoubt(channelError(err), doubtError{retryable: true})
	}
	out := wire.Reconciliation{Channel: s.channelJSON(r.Books)}
	if !r.Chain.Gone {
		out.Chain = &wire.ChainChannel{
			Deposit: decimal(r.Chain.Deposit), Withdrawn: decimal(r.Chain.Withdrawn),
			NextSequenceNumber: decimal(r.Chain.NextSequence), Expires: r.Chain.Expires,
		}
	}
	if r.After != nil {
		after := s.channelJSON(*r.After)
		out.After = &after
	}
	return writeJSON(x, http.StatusOK, out)
}

// sessionsTimeout bounds how long the response to a change waits for the channel's sessions.
const sessionsTimeout = 2 * time.Second

// writeChanged sends a channel that was just changed. The change is committed, so a failure to read
// the sessions must not become an error response: they are omitted.
func (s *Server) writeChanged(x *call, status int, c ledger.Channel) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.Request.Context()), sessionsTimeout)
	defer cancel()
	sessions, err := s.channelSessions(ctx, c.ID)
	if err != nil {
		s.Log().Warn("the sessions of a changed channel could not be read and are omitted from the response", "id", x.RequestID, "error", err)
	}
	return s.writeChannel(x, status, c, sessions)
}

// channelSessions returns the sessions that were bought over a channel. The list is nil only if
// there is an error.
func (s *Server) channelSessions(ctx context.Context, id string) ([]wire.ChannelSession, error) {
	sessions, err := s.channels.Sessions(ctx, id)
	if err != nil {
		return nil, err
	}
	out := make([]wire.ChannelSession, len(sessions))
	for i, one := range sessions {
		out[i] = wire.ChannelSession{SessionID: one.ID, ChunksetsLeft: one.Left, Expires: one.Expires}
	}
	return out, nil
}

// writeChannel sends a channel's state, without its sessions if they are nil.
func (s *Server) writeChannel(x *call, status int, c ledger.Channel, sessions []wire.ChannelSession) error {
	out := s.channelJSON(c)
	out.Sessions = sessions
	return writeJSON(x, status, out)
}

// channelJSON returns a channel's state, without its sessions.
func (s *Server) channelJSON(c ledger.Channel) wire.Channel {
	out := wire.Channel{
		ChannelID:        c.ID,
		PaymentChannelID: decimal(c.PaymentChannelID),
		Sender:           c.Sender,
		Receiver:         c.Receiver,
		Asset:            c.Asset,
		Deposit:          decimal(c.Deposit),
		Accepted:         decimal(c.Accepted),
		Credit:           decimal(c.Credit),
		Settled:          decimal(c.Settled),
		Unsettled:        decimal(max(0, c.Accepted-c.Settled)),
		SellingLimit:     decimal(s.channels.SellingLimit(c)),
		SequenceNumber:   decimal(max(0, c.Sequence, c.NextSequence-1)),
		State:            string(s.channels.State(c)),
		Stopped:          c.Stopped,
		Created:          c.Created,
		Expires:          c.Expires,
	}
	if c.Expired > 0 {
		out.Expired = decimal(c.Expired)
	}
	if c.Elsewhere > 0 {
		out.Elsewhere = decimal(c.Elsewhere)
	}
	if !c.Closed.IsZero() && c.ChainTime.IsZero() {
		out.Refund = decimal(c.Deposit - c.Accepted)
	}
	return out
}
