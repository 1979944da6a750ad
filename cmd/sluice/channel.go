package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"text/tabwriter"
	"time"

	"sluice/client"
	"sluice/internal/accountkey"
	"sluice/internal/terminal"
	"sluice/internal/units"
)

// channelCommand manages payment channels.
type channelCommand struct {
	Open    channelOpen    `cmd:"" help:"Open a payment channel with a deposit."`
	Show    channelShow    `cmd:"" help:"Print the state of a channel, and its sessions."`
	Deposit channelDeposit `cmd:"" help:"Add to the deposit of a channel."`
	Close   channelClose   `cmd:"" help:"Close a channel. What was never paid is refunded."`
}

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
		{"payment channel", amount(ch.PaymentChannelID)},
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

// printTable prints names and values.
func printTable(out io.Writer, lines [][2]string) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	var errs []error
	for _, line := range lines {
		_, err := fmt.Fprintf(table, "%s\t%s\n", line[0], terminal.Text(line[1]))
		errs = append(errs, err)
	}
	return errors.Join(append(errs, table.Flush())...)
}

type channelOpen struct {
	paymentCommand

	Sender         string     `env:"-" placeholder:"ADDRESS" help:"Address of the account that will pay. Default: that of the key pair of sluice account new, if there is one."`
	Deposit        uint64     `env:"-" placeholder:"AMOUNT" help:"Deposit in units of the asset. Default: that of the server, 1000000."`
	Asset          string     `env:"-" placeholder:"ADDRESS" help:"Address of the asset. Default: that of the server."`
	Expires        units.When `env:"-" placeholder:"TIME" help:"When the channel expires: 30d, 2030-01-31 or a time. Default: that of the server, 90 days."`
	IdempotencyKey string     `env:"-" placeholder:"KEY" help:"Name of this request: calls with the same one within 24 hours open one channel together."`
}

// Help returns examples.
func (channelOpen) Help() string {
	return examples("sluice channel open --deposit 5000", "sluice channel open --sender 0x7a --deposit 5000 --expires 30d")
}

// Run opens the channel, and prints its id alone to stdout.
func (c *channelOpen) Run(ctx context.Context, console *console) error {
	o := client.OpenChannelOptions{Sender: c.Sender, Deposit: c.Deposit, Asset: c.Asset, IdempotencyKey: c.IdempotencyKey}
	var err error
	if o.Sender == "" {
		if o.Sender, err = ownAddress(); err != nil {
			return err
		}
	}
	if c.Expires != (units.When{}) {
		if o.Expires, err = c.Expires.From(time.Now()); err != nil {
			return exitWith(exitUsage, fmt.Errorf("--expires: %w", err))
		}
	}
	of, err := c.client()
	if err != nil {
		return err
	}
	ch, err := of.OpenChannel(ctx, o)
	if err != nil {
		return err
	}
	if c.JSON {
		return c.printChannel(console, ch)
	}
	return errors.Join(printLine(console.out, terminal.Text(ch.ID)), printLine(console.err, fmt.Sprintf("deposit %d, expires %s", ch.Deposit, ch.Expires.UTC().Format(time.RFC3339))))
}

// ownAddress returns the address of the account of the user, or "" if they have none.
func ownAddress() (string, error) {
	file, err := accountkey.DefaultFile()
	if err != nil {
		return "", err
	}
	k, err := accountkey.Read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return k.Address().String(), nil
}

// oneChannel is a command on one channel.
type oneChannel struct {
	ID string `arg:"" name:"id" help:"Id of the channel."`

	paymentCommand
}

type channelShow struct{ oneChannel }

// Help returns examples.
func (channelShow) Help() string { return examples("sluice channel show PN2GSKYIOXGVHYTJIRCOBD7OL5") }

// Run prints the channel.
func (c *channelShow) Run(ctx context.Context, console *console) error {
	of, err := c.client()
	if err != nil {
		return err
	}
	ch, err := of.Channel(ctx, c.ID)
	if err != nil {
		return err
	}
	return c.printChannel(console, ch)
}

type channelDeposit struct {
	oneChannel

	Amount         string `arg:"" help:"Amount in units of the asset."`
	IdempotencyKey string `env:"-" placeholder:"KEY" help:"Name of this request: calls with the same one within 24 hours add the amount once."`
}

// Help returns examples.
func (channelDeposit) Help() string {
	return examples("sluice channel deposit PN2GSKYIOXGVHYTJIRCOBD7OL5 1000", "sluice channel deposit PN2GSKYIOXGVHYTJIRCOBD7OL5 1000 --idempotency-key may")
}

// amount returns the amount, which is at least 1.
func (c *channelDeposit) amount() (uint64, error) {
	n, err := strconv.ParseUint(c.Amount, 10, 63)
	if err != nil || n == 0 {
		return 0, exitWith(exitUsage, fmt.Errorf("AMOUNT: want a whole number from 1 to 2^63-1, not %q", c.Amount))
	}
	return n, nil
}

// Run adds the amount.
func (c *channelDeposit) Run(ctx context.Context, console *console) error {
	amount, err := c.amount()
	if err != nil {
		return err
	}
	of, err := c.client()
	if err != nil {
		return err
	}
	ch, err := of.Deposit(ctx, c.ID, amount, client.DepositOptions{IdempotencyKey: c.IdempotencyKey})
	if err != nil {
		return err
	}
	return c.printChannel(console, ch)
}

type channelClose struct{ oneChannel }

// Help returns examples.
func (channelClose) Help() string { return examples("sluice channel close PN2GSKYIOXGVHYTJIRCOBD7OL5") }

// Run closes the channel.
func (c *channelClose) Run(ctx context.Context, console *console) error {
	of, err := c.client()
	if err != nil {
		return err
	}
	ch, err := of.CloseChannel(ctx, c.ID)
	if err != nil {
		return err
	}
	return c.printChannel(console, ch)
}
