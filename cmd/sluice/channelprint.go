package main

import (
	"fmt"
	"sluice/client"
	"sluice/internal/terminal"
	"strconv"
	"time"
)

// printedChannel is a channel in JSON. Amounts are decimal strings, as in the protocol.
type printedChannel struct {
	ChannelID        string           `json:"channelId"`
	PaymentChannelID uint64           `json:"paymentChannelId,string"`
	Sender           string           `json:"sender,omitempty"`
	Receiver         string           `json:"receiver"`
	Asset            string           `json:"asset"`
	Deposit          uint64           `json:"deposit,string"`
	Accepted         uint64           `json:"accepted,string"`
	Credit           uint64           `json:"credit,string"`
	Settled          uint64           `json:"settled,string"`
	Refund           *string          `json:"refund,omitempty"`
	SequenceNumber   uint64           `json:"sequenceNumber,string"`
	State            string           `json:"state"`
	Created          time.Time        `json:"created"`
	Expires          time.Time        `json:"expires"`
	Sessions         []channelSession `json:"sessions"`
}

type channelSession struct {
	SessionID     string    `json:"sessionId"`
	ChunksetsLeft int64     `json:"chunksetsLeft"`
	Expires       time.Time `json:"expires"`
}

// printChannel prints a channel.
func (c *paymentCommand) printChannel(console *console, ch client.Channel) error {
	if c.JSON {
		p := printedChannel{
			ChannelID: ch.ID, PaymentChannelID: ch.PaymentChannelID, Sender: ch.Sender, Receiver: ch.Receiver, Asset: ch.Asset,
			Deposit: ch.Deposit, Accepted: ch.Accepted, Credit: ch.Credit, Settled: ch.Settled, SequenceNumber: ch.Sequence,
			State: ch.State, Created: ch.Created, Expires: ch.Expires, Sessions: []channelSession{},
		}
		if ch.State == "closed" {
			refund := strconv.FormatUint(ch.Refund, 10)
			p.Refund = &refund
		}
		for _, s := range ch.Sessions {
			p.Sessions = append(p.Sessions, channelSession{s.ID, s.ChunksetsLeft, s.Expires})
		}
		return terminal.WriteJSON(console.out, p)
	}
	sender := ch.Sender
	if sender == "" {
		sender = "that of the first payment"
	}
	amount := func(n uint64) string { return strconv.FormatUint(n, 10) }
	lines := [][2]string{
		{"channel", ch.ID},
		{"payment id", amount(ch.PaymentChannelID)},
		{"sender", sender},
		{"receiver", ch.Receiver},
		{"asset", ch.Asset},
		{"state", ch.State},
		{"deposit", amount(ch.Deposit)},
		{"paid", amount(ch.Accepted)},
		{"credit", amount(ch.Credit)},
		{"settled", amount(ch.Settled)},
	}
	if ch.State == "closed" {
		lines = append(lines, [2]string{"refund", amount(ch.Refund)})
	}
	lines = append(lines, [2]string{"expires", ch.Expires.UTC().Format(time.RFC3339)})
	for _, s := range ch.Sessions {
		lines = append(lines, [2]string{"session", fmt.Sprintf("%s with %d chunksets left", s.ID, s.ChunksetsLeft)})
	}
	return printTable(console.out, lines)
}
