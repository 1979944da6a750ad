package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"sluice/blob"
	"sluice/metastore"
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

func (s *Server) openChannel(w http.ResponseWriter, r *http.Request, _ params) error {
	var in openChannelBody
	body, err := readJSON(r, &in)
	if err != nil {
		return err
	}
	open := paychan.Open{
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
	idem, err := idempotency(r, "open-channel", body)
	if err != nil {
		return err
	}
	made, err := s.Channels.Open(r.Context(), open, idem)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusCreated, s.channelJSON(made))
}

// address reads an optional address of a JSON body; empty when it is not there.
func address(member string, given *string) (string, error) {
	if given == nil {
		return "", nil
	}
	canonical, err := blob.ParseAccount(*given)
	if err != nil || len(canonical) < 2 || canonical[:2] != "0x" {
		return "", fmt.Errorf("%w: %s must be an address: 0x and 1 to 64 hexadecimal digits", errParameter, member)
	}
	return canonical, nil
}

func (s *Server) getChannel(w http.ResponseWriter, r *http.Request, p params) error {
	found, err := s.Channels.Get(r.Context(), p.get("channelId"))
	if errors.Is(err, metastore.ErrNotFound) {
		return fmt.Errorf("%w: %w", errNoChannel, err)
	}
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, s.channelJSON(found))
}

func (s *Server) channelJSON(c metastore.Channel) wire.Channel {
	const none = "0" // nothing is paid over channels yet
	return wire.Channel{
		ChannelID:        c.ID,
		PaymentChannelID: strconv.FormatInt(c.PaymentChannelID, 10),
		Sender:           c.Sender,
		Receiver:         c.Receiver,
		Asset:            c.Asset,
		Deposit:          strconv.FormatInt(c.Deposit, 10),
		Accepted:         none,
		Credit:           none,
		Settled:          none,
		Unsettled:        none,
		SequenceNumber:   none,
		State:            string(s.Channels.State(c)),
		Created:          c.Created,
		Expires:          c.Expires,
	}
}
