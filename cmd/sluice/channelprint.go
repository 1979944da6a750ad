package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"text/tabwriter"
	"time"

	"sluice/client"
	"sluice/internal/terminal"
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
	Unsettled        uint64           `json:"unsettled,string"`
	SellingLimit     *uint64          `json:"sellingLimit,omitempty,string"` // absent: the server does not say
	Expired          uint64           `json:"expired,omitempty,string"`
	Elsewhere        uint64           `json:"elsewhere,omitempty,string"`
	Refund           *string          `json:"refund,omitempty"`
	SequenceNumber   uint64           `json:"sequenceNumber,string"`
	State            string           `json:"state"`
	Stopped          string           `json:"stopped,omitempty"`
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
		return terminal.WriteJSON(console.out, channelAsJSON(ch))
	}
	return printTable(console.out, channelLines(ch))
}

// unsettled returns what the server has accepted over the channel and not collected.
func unsettled(ch client.Channel) uint64 { return ch.Accepted - min(ch.Accepted, ch.Settled) }

func channelAsJSON(ch client.Channel) printedChannel {
	p := printedChannel{
		ChannelID: ch.ID, PaymentChannelID: ch.PaymentChannelID, Sender: ch.Sender, Receiver: ch.Receiver, Asset: ch.Asset,
		Deposit: ch.Deposit, Accepted: ch.Accepted, Credit: ch.Credit, Settled: ch.Settled, SequenceNumber: ch.Sequence,
		Unsettled: unsettled(ch), Expired: ch.Expired, Elsewhere: ch.Elsewhere,
		State: ch.State, Stopped: ch.Stopped, Created: ch.Created, Expires: ch.Expires, Sessions: []channelSession{},
	}
	if ch.SellingLimit < math.MaxInt64 {
		p.SellingLimit = &ch.SellingLimit
	}
	if ch.State == "closed" {
		refund := strconv.FormatUint(ch.Refund, 10)
		p.Refund = &refund
	}
	for _, s := range ch.Sessions {
		p.Sessions = append(p.Sessions, channelSession{s.ID, s.ChunksetsLeft, s.Expires})
	}
	return p
}

// channelLines returns the names and values of a channel.
func channelLines(ch client.Channel) [][2]string {
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
		{"unsettled", amount(unsettled(ch))},
	}
	if ch.Stopped != "" {
		lines = append(lines, [2]string{"stopped because", ch.Stopped})
	}
	if ch.SellingLimit < math.MaxInt64 {
		lines = append(lines, [2]string{"selling limit", amount(ch.SellingLimit)})
	}
	if ch.Expired > 0 {
		lines = append(lines, [2]string{"expired", amount(ch.Expired) + ", which sluice channel renew lets the server collect"})
	}
	if ch.Elsewhere > 0 {
		lines = append(lines, [2]string{"elsewhere", amount(ch.Elsewhere) + " withdrawn that the server did not collect"})
	}
	if ch.State == "closed" {
		lines = append(lines, [2]string{"refund", amount(ch.Refund)})
	}
	lines = append(lines, [2]string{"expires", ch.Expires.UTC().Format(time.RFC3339)})
	for _, s := range ch.Sessions {
		lines = append(lines, [2]string{"session", fmt.Sprintf("%s with %d chunksets left", s.ID, s.ChunksetsLeft)})
	}
	return lines
}

// printedReconciliation is a comparison with the chain in JSON.
type printedReconciliation struct {
	Channel printedChannel    `json:"channel"`
	Chain   printedChainState `json:"chain"`
	After   printedChannel    `json:"after"`
}

type printedChainState struct {
	Deposit            uint64    `json:"deposit,string"`
	Withdrawn          uint64    `json:"withdrawn,string"`
	NextSequenceNumber uint64    `json:"nextSequenceNumber,string"`
	Expires            time.Time `json:"expires"`
}

// printReconciliation prints what the server knows of a channel before and after, and what the chain says.
func (c *paymentCommand) printReconciliation(console *console, r client.Reconciliation) error {
	if c.JSON {
		chain := printedChainState{r.Chain.Deposit, r.Chain.Withdrawn, r.Chain.NextSequence, r.Chain.Expires}
		return terminal.WriteJSON(console.out, printedReconciliation{channelAsJSON(r.Channel), chain, channelAsJSON(r.After)})
	}
	table := tabwriter.NewWriter(console.out, 0, 0, 2, ' ', 0)
	row := func(name, before, chain, after string) error {
		_, err := fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", name, terminal.Text(before), terminal.Text(chain), terminal.Text(after))
		return err
	}
	amounts := func(name string, before uint64, chain string, after uint64) error {
		return row(name, strconv.FormatUint(before, 10), chain, strconv.FormatUint(after, 10))
	}
	amount := func(n uint64) string { return strconv.FormatUint(n, 10) }
	date := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	b, a := r.Channel, r.After
	return errors.Join(
		row("", "server", "chain", "after"),
		amounts("deposit", b.Deposit, amount(r.Chain.Deposit), a.Deposit),
		amounts("paid", b.Accepted, "", a.Accepted),
		amounts("settled", b.Settled, amount(r.Chain.Withdrawn), a.Settled),
		amounts("unsettled", unsettled(b), "", unsettled(a)),
		amounts("elsewhere", b.Elsewhere, "", a.Elsewhere),
		amounts("sequence number", b.Sequence, "next "+amount(r.Chain.NextSequence), a.Sequence),
		row("expires", date(b.Expires), date(r.Chain.Expires), date(a.Expires)),
		row("state", b.State, "", a.State),
		table.Flush(),
	)
}
