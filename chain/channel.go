package chain

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"sluice/micropay"
)

// viewChannels is the view function that returns the channels between a sender and a receiver.
const viewChannels = "get_all_channels_from_sender_to_receiver"

// Channel is a payment channel as it is on the chain. Amounts are in units of the asset.
type Channel struct {
	PaymentChannelID uint64
	Asset            micropay.Address
	Balance          uint64 // deposited and not withdrawn
	Withdrawn        uint64 // by the receiver
	NextSequence     uint64 // least sequence number that the contract accepts in a micropayment
	Created, Expires time.Time
}

// Channels are the channels between a sender and a receiver.
type Channels struct {
	List []Channel
	At   time.Time // the chain's time when the node answered
}

// Channels returns the channels between a sender and a receiver, from the first node that answers.
// It returns ErrUnavailable or an *Error.
func (c *Client) Channels(ctx context.Context, sender, receiver micropay.Address) (Channels, error) {
	return c.channels(ctx, "/view", sender, receiver)
}

// ChannelsAt is Channels at a version: after the transaction with this version was executed, and
// before the next one. The *Error has the status 404 if the node has not executed it yet, and 410
// if the node has forgotten the version.
func (c *Client) ChannelsAt(ctx context.Context, version uint64, sender, receiver micropay.Address) (Channels, error) {
	return c.channels(ctx, "/view?ledger_version="+strconv.FormatUint(version, 10), sender, receiver)
}

func (c *Client) channels(ctx context.Context, path string, sender, receiver micropay.Address) (Channels, error) {
	r := request{method: http.MethodPost, path: path, contentType: "application/x.aptos.view_function+bcs", body: c.channelsCall(sender, receiver)}
	var channels Channels
	err := c.call(ctx, r, func(a *answer) (err error) {
		if a.at.IsZero() {
			return a.malformed(errNoTime)
		}
		channels.At = a.at
		channels.List, err = decodeChannels(a)
		return err
	})
	if err != nil {
		return Channels{}, err
	}
	return channels, nil
}

// channelsCall encodes the call of viewChannels in BCS: module, function, no type arguments, and
// two arguments of 32 bytes each with their lengths.
func (c *Client) channelsCall(sender, receiver micropay.Address) []byte {
	b := append([]byte{}, c.module[:]...)
	for _, name := range []string{micropay.ModuleName, viewChannels} {
		b = append(append(b, byte(len(name))), name...)
	}
	b = append(b, 0, 2)
	for _, argument := range []micropay.Address{sender, receiver} {
		b = append(append(b, byte(len(argument))), argument[:]...)
	}
	return b
}

// channelJSON is a channel in a node's answer.
type channelJSON struct {
	Asset struct {
		Inner string `json:"inner"`
	} `json:"asset_metadata"`
	Balance   *number `json:"balance"`
	Created   *number `json:"creation_micros"`
	Expires   *number `json:"expiration_micros"`
	Next      *number `json:"next_withdrawn_sequence_number"`
	ID        *number `json:"payment_channel_id"`
	Withdrawn *number `json:"receiver_withdrawn_amount"`
}

// decodeChannels decodes the view function's result: a list with one value, the list of channels.
func decodeChannels(a *answer) ([]Channel, error) {
	var body [][]channelJSON
	if err := a.decodeJSON(http.StatusOK, &body); err != nil {
		return nil, err
	}
	if len(body) != 1 || body[0] == nil {
		return nil, a.malformed(errors.New("want one list"))
	}
	var list []Channel
	for _, j := range body[0] {
		asset, err := micropay.ParseAddress(j.Asset.Inner)
		if err != nil {
			return nil, a.malformed(err)
		}
		for _, n := range []*number{j.Balance, j.Created, j.Expires, j.Next, j.ID, j.Withdrawn} {
			if n == nil {
				return nil, a.malformed(errors.New("a channel lacks a number"))
			}
		}
		list = append(list, Channel{
			PaymentChannelID: uint64(*j.ID), Asset: asset, Balance: uint64(*j.Balance), Withdrawn: uint64(*j.Withdrawn),
			NextSequence: uint64(*j.Next), Created: j.Created.time(), Expires: j.Expires.time(),
		})
	}
	return list, nil
}
