package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"sluice/access"
	"sluice/httpapi/internal/router"
	"sluice/metastore"
	"sluice/micropay"
	"sluice/paychan"
	"sluice/wire"
)

// openChannelBody asks for a channel; the public form sends none of it.
type openChannelBody struct {
	UserIdentity     *string `json:"userIdentity"`
	Deposit          *amount `json:"deposit"`
	Asset            *string `json:"asset"`
	Expires          string  `json:"expires"`
	PaymentChannelID *amount `json:"paymentChannelId"`
}

// errUnboundChannel refuses a channel that the first payer, whoever that is,
// would be bound to: others must not spend a deposit that was set aside by the
// holder of a key.
var errUnboundChannel = fmt.Errorf("%w: userIdentity is required on a hosted network: name the address that will pay over the channel", errParameter)

func (s *Server) openChannel(x *exchange, r *http.Request, _ router.Params) error {
	var in openChannelBody
	body, err := readJSON(r, &in)
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
	if s.Keys != nil && open.Sender == "" {
		return errUnboundChannel
	}
	if err := x.allowsSender(open.Sender); err != nil {
		return err
	}
	idem, err := idempotency(x, r, "open-channel", "", body)
	if err != nil {
		return err
	}
	open.Owner = x.owner()
	made, err := s.openWithinQuota(x, r, open, idem)
	if err != nil {
		return inDoubt(err, doubtError{channelID: made.ID, again: idem != nil})
	}
	return s.writeChanged(x, r, http.StatusCreated, made)
}

// openWithinQuota opens a channel if the quota of its owner has room for it. A repeat
// of a request that opened one needs no room.
func (s *Server) openWithinQuota(x *exchange, r *http.Request, open paychan.OpenOptions, idem *metastore.Idempotency) (metastore.Channel, error) {
	reservation, refused := x.allowance.ReserveChannel(r.Context())
	if errors.Is(refused, access.ErrQuota) && idem != nil {
		made, err := s.Channels.Opened(r.Context(), *idem)
		if !errors.Is(err, metastore.ErrNotFound) {
			return made, err
		}
	}
	if refused != nil {
		return metastore.Channel{}, refused
	}
	made, err := s.Channels.Open(r.Context(), open, idem)
	if err == nil || errors.Is(err, metastore.ErrUnknownOutcome) {
		reservation.Keep()
	} else {
		reservation.Release()
	}
	return made, err
}

// address reads an optional address of a JSON body; empty when it is not there.
func address(member string, given *string) (string, error) {
	if given == nil {
		return "", nil
	}
	canonical, err := micropay.ParseAddress(*given)
	if err != nil {
		return "", fmt.Errorf("%w: %s must be an address: 0x and 1 to 64 hexadecimal digits", errParameter, member)
	}
	return canonical.String(), nil
}

// channelError tells that it is a channel which is not there.
func channelError(err error) error {
	if errors.Is(err, metastore.ErrNotFound) {
		return fmt.Errorf("%w: %w", errNoChannel, err)
	}
	return err
}

func (s *Server) getChannel(x *exchange, r *http.Request, p router.Params) error {
	found, err := s.Channels.Get(r.Context(), p.Get("channelId"))
	if err != nil {
		return channelError(err)
	}
	sessions, err := s.channelSessions(r.Context(), found.ID)
	if err != nil {
		return err
	}
	return s.writeChannel(x, http.StatusOK, found, sessions)
}

// depositBody asks to add to a deposit.
type depositBody struct {
	Amount *amount `json:"amount"`
}

func (s *Server) addDeposit(x *exchange, r *http.Request, p router.Params) error {
	var in depositBody
	body, err := readJSON(r, &in)
	if err != nil {
		return err
	}
	if in.Amount == nil {
		return missingMember("amount")
	}
	id := p.Get("channelId")
	idem, err := idempotency(x, r, "add-deposit", id, body)
	if err != nil {
		return err
	}
	c, err := s.Channels.Deposit(r.Context(), id, int64(*in.Amount), idem)
	if err != nil {
		return inDoubt(channelError(err), doubtError{again: idem != nil})
	}
	return s.writeChanged(x, r, http.StatusOK, c)
}

func (s *Server) closeChannel(x *exchange, r *http.Request, p router.Params) error {
	var nothing struct{}
	if _, err := readJSON(r, &nothing); err != nil {
		return err
	}
	c, err := s.Channels.Close(r.Context(), p.Get("channelId"))
	if err != nil {
		return channelError(err)
	}
	return s.writeChanged(x, r, http.StatusOK, c)
}

// sessionsWait is how long the answer to a change waits for a place among the
// readers of the store.
const sessionsWait = 2 * time.Second

// writeChanged sends a channel that was just changed. The change is committed,
// so that nothing may make a refusal of the answer: without its sessions, where
// these cannot be read, it is still true.
func (s *Server) writeChanged(x *exchange, r *http.Request, status int, c metastore.Channel) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), sessionsWait)
	defer cancel()
	sessions, err := s.channelSessions(ctx, c.ID)
	if err != nil {
		s.Log.Warn("the answer to a change of a channel goes without its sessions", "id", x.requestID, "error", err)
	}
	return s.writeChannel(x, status, c, sessions)
}

// channelSessions returns the sessions that were bought over a channel; the
// list is nil only beside an error.
func (s *Server) channelSessions(ctx context.Context, id string) ([]wire.ChannelSession, error) {
	sessions, err := s.Channels.Sessions(ctx, id)
	if err != nil {
		return nil, err
	}
	out := make([]wire.ChannelSession, len(sessions))
	for i, one := range sessions {
		out[i] = wire.ChannelSession{SessionID: one.ID, ChunksetsLeft: one.Left, Expires: one.Expires}
	}
	return out, nil
}

// writeChannel sends the state of a channel, without its sessions if these are
// nil.
func (s *Server) writeChannel(x *exchange, status int, c metastore.Channel, sessions []wire.ChannelSession) error {
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
		Unsettled:        decimal(c.Accepted - c.Settled),
		SequenceNumber:   decimal(c.Sequence),
		State:            string(s.Channels.State(c)),
		Created:          c.Created,
		Expires:          c.Expires,
		Sessions:         sessions,
	}
	if !c.Closed.IsZero() {
		out.Refund = decimal(c.Deposit - c.Accepted)
	}
	return writeJSON(x, status, out)
}

// decimal writes a number of money as the interface has it.
func decimal(n int64) string { return strconv.FormatInt(n, 10) }
