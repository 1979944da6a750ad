package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
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
	of, err := c.client(console)
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
	return errors.Join(printLine(console.out, terminal.Text(ch.ID)), c.remark(console, fmt.Sprintf("deposit %d, expires %s", ch.Deposit, ch.Expires.UTC().Format(time.RFC3339))))
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
	of, err := c.client(console)
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
	of, err := c.client(console)
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
	of, err := c.client(console)
	if err != nil {
		return err
	}
	ch, err := of.CloseChannel(ctx, c.ID)
	if err != nil {
		return err
	}
	return c.printChannel(console, ch)
}
