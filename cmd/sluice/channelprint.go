package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"sluice/client"
	"sluice/cmd/sluice/internal/terminal"
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
	SellingLimit     *uint64          `json:"sellingLimit,omitempty,string"` // absent: the server does not state it
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

// unsettled returns the amount that the server has accepted over the channel and not collected.
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

// channelLines returns a channel's names and values.
func channelLines(ch client.Channel) [][2]string {
	sender := ch.Sender
	if sender == "" {
		sender = "who makes the first payment"
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
	Channel printedChannel     `json:"channel"`
	Chain   *printedChainState `json:"chain,omitempty"`
	After   *printedChannel    `json:"after,omitempty"`
}

type printedChainState struct {
	Deposit            uint64    `json:"deposit,string"`
	Withdrawn          uint64    `json:"withdrawn,string"`
	NextSequenceNumber uint64    `json:"nextSequenceNumber,string"`
	Expires            time.Time `json:"expires"`
}

// printReconciliation prints a channel's state in the server and on the chain and, if the server
// has recorded the chain's, its state after that.
func (c *paymentCommand) printReconciliation(console *console, r client.Reconciliation) error {
	if c.JSON {
		p := printedReconciliation{Channel: channelAsJSON(r.Channel)}
		if of := r.Chain; of != nil {
			p.Chain = &printedChainState{of.Deposit, of.Withdrawn, of.NextSequence, of.Expires}
		}
		if r.After != nil {
			after := channelAsJSON(*r.After)
			p.After = &after
		}
		return terminal.WriteJSON(console.out, p)
	}
	amount := func(n uint64) string { return strconv.FormatUint(n, 10) }
	date := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	// Each column has the values of these rows.
	rows := []string{"", "deposit", "paid", "settled", "unsettled", "elsewhere", "next sequence number", "expires", "state"}
	books := func(title string, ch client.Channel) []string {
		return []string{title, amount(ch.Deposit), amount(ch.Accepted), amount(ch.Settled), amount(unsettled(ch)), amount(ch.Elsewhere), amount(ch.Sequence + 1), date(ch.Expires), ch.State}
	}
	chain := []string{"chain", "", "", "", "", "", "", "", "does not exist"}
	if of := r.Chain; of != nil {
		chain = []string{"chain", amount(of.Deposit), "", amount(of.Withdrawn), "", "", amount(of.NextSequence), date(of.Expires), "exists"}
	}
	columns := [][]string{rows, books("server", r.Channel), chain}
	if r.After != nil {
		columns = append(columns, books("recorded", *r.After))
	}
	table := tabwriter.NewWriter(console.out, 0, 0, 2, ' ', 0)
	var errs []error
	for i := range rows {
		line := make([]string, len(columns))
		for j, column := range columns {
			line[j] = terminal.Text(column[i])
		}
		_, err := fmt.Fprintln(table, strings.Join(line, "\t"))
		errs = append(errs, err)
	}
	return errors.Join(append(errs, table.Flush())...)
}
