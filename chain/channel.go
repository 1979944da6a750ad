package chain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"sluice/micropay"
)

// viewChannels is the view function that returns the channels between a sender and a receiver.
const viewChannels = "get_all_channels_from_sender_to_receiver"

// ChannelName names a channel between a sender and a receiver.
type ChannelName struct {
	Asset            micropay.Address
	PaymentChannelID uint64
}

// Channel is a payment channel as it is on the chain. Amounts are in units of the asset.
type Channel struct {
	ChannelName

	Balance          uint64 // deposited and not withdrawn
	Withdrawn        uint64 // by the receiver
	NextSequence     uint64 // least sequence number that the contract accepts in a micropayment
	Created, Expires time.Time
}

// Channels are channels between a sender and a receiver.
type Channels struct {
	ByName map[ChannelName]Channel
	At     time.Time // the chain's time when the node answered
}

// Channels returns the named channels between a sender and a receiver, as far as they exist, from
// the first node that answers. The sender may have any number of channels besides: only one at a
// time is in memory. Channels returns ErrUnavailable or an *Error.
func (c *Client) Channels(ctx context.Context, sender, receiver micropay.Address, names ...ChannelName) (Channels, error) {
	return c.channels(ctx, "/view", sender, receiver, names)
}

// ChannelsAt is Channels at a version: after the transaction with this version was executed, and
// before the next one. The *Error has the status 404 if the node has not executed it yet, and 410
// if the node has forgotten the version.
func (c *Client) ChannelsAt(ctx context.Context, version uint64, sender, receiver micropay.Address, names ...ChannelName) (Channels, error) {
	return c.channels(ctx, "/view?ledger_version="+strconv.FormatUint(version, 10), sender, receiver, names)
}

func (c *Client) channels(ctx context.Context, path string, sender, receiver micropay.Address, names []ChannelName) (Channels, error) {
	r := request{method: http.MethodPost, path: path, contentType: "application/x.aptos.view_function+bcs", body: c.channelsCall(sender, receiver)}
	var channels Channels
	err := c.call(ctx, r, func(a *answer) (err error) {
		if a.at.IsZero() {
			return a.malformed(errNoTime)
		}
		channels.At = a.at
		channels.ByName, err = decodeChannels(a, names)
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

// decodeChannels decodes the view function's result, a list with one value, the list of channels,
// and returns those with these names.
func decodeChannels(a *answer, names []ChannelName) (map[ChannelName]Channel, error) {
	if a.status != http.StatusOK {
		return nil, a.decodeJSON(http.StatusOK, nil)
	}
	wanted, found := map[ChannelName]bool{}, map[ChannelName]Channel{}
	for _, name := range names {
		wanted[name] = true
	}
	d := json.NewDecoder(a.body)
	if err := expect(d, json.Delim('['), json.Delim('[')); err != nil {
		return nil, a.malformed(err)
	}
	for a.body.N = maxResponse; d.More(); a.body.N = maxResponse {
		var j channelJSON
		if err := d.Decode(&j); err != nil {
			return nil, a.malformed(err)
		}
		c, err := j.channel()
		if _, twice := found[c.ChannelName]; twice {
			err = fmt.Errorf("channel %d is listed twice", c.PaymentChannelID)
		}
		if err != nil {
			return nil, a.malformed(err)
		}
		if wanted[c.ChannelName] {
			found[c.ChannelName] = c
		}
	}
	if err := expect(d, json.Delim(']'), json.Delim(']')); err != nil {
		return nil, a.malformed(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, a.malformed(errors.New("the list has an end, and the body goes on"))
	}
	return found, nil
}

// expect reads these tokens.
func expect(d *json.Decoder, tokens ...json.Token) error {
	for _, want := range tokens {
		if got, err := d.Token(); err != nil || got != want {
			return errors.Join(fmt.Errorf("want one list: %v, not %v", want, got), err)
		}
	}
	return nil
}

// channel returns the channel, or an error if a member is missing or invalid.
func (j *channelJSON) channel() (Channel, error) {
	asset, err := micropay.ParseAddress(j.Asset.Inner)
	if err != nil {
		return Channel{}, err
	}
	for _, n := range []*number{j.Balance, j.Created, j.Expires, j.Next, j.ID, j.Withdrawn} {
		if n == nil {
			return Channel{}, errors.New("a channel lacks a number")
		}
	}
	return Channel{
		ChannelName: ChannelName{asset, uint64(*j.ID)}, Balance: uint64(*j.Balance), Withdrawn: uint64(*j.Withdrawn),
		NextSequence: uint64(*j.Next), Created: j.Created.time(), Expires: j.Expires.time(),
	}, nil
}
