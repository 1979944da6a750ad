package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"time"

	"sluice/client"
	"sluice/cmd/sluice/internal/accountkey"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/units"
	"sluice/wire"
)

// channelCommand manages payment channels.
type channelCommand struct {
	Open      channelOpen      `cmd:"" help:"Open a payment channel with a deposit, or make one that exists on the chain known to the server."`
	Show      channelShow      `cmd:"" help:"Print the state of a channel, and its sessions."`
	Deposit   channelDeposit   `cmd:"" help:"Add to the deposit of a channel."`
	Renew     channelRenew     `cmd:"" help:"Sign a channel's payment once more, after the payment has expired before it was collected."`
	Close     channelClose     `cmd:"" help:"Close a channel. The amount that was never paid is refunded."`
	Reconcile channelReconcile `cmd:"" help:"Compare a channel with the chain. Requires a key with the scope admin."`
}

type channelOpen struct {
	paymentCommand

	Sender           string     `env:"-" placeholder:"ADDRESS" help:"Address of the account that will pay. Default: the address that sluice account new has made, if it has."`
	PaymentChannelID uint64     `name:"payment-channel-id" env:"-" placeholder:"NUMBER" help:"Number of the channel. If the server collects on a chain, it is required, and names a channel which the sender has opened there. Default: a random one."`
	Deposit          uint64     `env:"-" placeholder:"AMOUNT" help:"Deposit in units of the asset. On a chain it is made there. Default: the server's, 1000000."`
	Asset            string     `env:"-" placeholder:"ADDRESS" help:"Address of the asset. Default: the server's."`
	Expires          units.When `env:"-" placeholder:"TIME" help:"When the channel expires: 30d, 2030-01-31 or a time. On a chain it is set there. Default: the server's, 90 days."`
	IdempotencyKey   string     `env:"-" placeholder:"KEY" help:"Name of this request: calls with the same one within 24 hours open one channel together."`
}

// Help returns examples.
func (channelOpen) Help() string {
	return examples("sluice channel open --deposit 5000", "sluice channel open --sender 0x7a --deposit 5000 --expires 30d", "sluice channel open --sender 0x7a --payment-channel-id 1")
}

// Run opens the channel, and prints its id alone to stdout.
func (c *channelOpen) Run(ctx context.Context, console *console) error {
	o := client.OpenChannelOptions{Sender: c.Sender, Deposit: c.Deposit, Asset: c.Asset, PaymentChannelID: c.PaymentChannelID, IdempotencyKey: c.IdempotencyKey}
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
	if errors.Is(err, client.ErrInvalid) && c.PaymentChannelID == 0 {
		if info, infoErr := of.Info(ctx); infoErr == nil && info.Payment.Settlement == wire.SettlementChain {
			return fmt.Errorf("%w; the server collects on a chain: --payment-channel-id names a channel that the sender has opened there", err)
		}
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return c.printChannel(console, ch)
	}
	return errors.Join(printLine(console.out, terminal.Text(ch.ID)), c.remark(console, fmt.Sprintf("deposit %d, expires %s", ch.Deposit, ch.Expires.UTC().Format(time.RFC3339))))
}

// ownAddress returns the user's address, or "" if they have none.
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

type channelRenew struct {
	paymentCommand
	ownPayer
}

// Help describes the command and returns examples.
func (channelRenew) Help() string {
	return `Signs what was paid over the channel of the state file once more, if the payment has expired before
the server has collected it. Nothing is bought. sluice pay and --pay do this by themselves when
they buy. Without need, nothing is signed. It prints the channel.

` + examples("sluice channel renew", "sluice channel renew --state-file payer.json")
}

// Run renews the payment.
func (c *channelRenew) Run(ctx context.Context, console *console) error {
	of, err := c.client(console)
	if err != nil {
		return err
	}
	// The limits concern purchases.
	p, _, err := c.open(ctx, of, client.PayerOptions{MaxPrice: math.MaxInt64, MaxSpend: math.MaxInt64})
	if err != nil {
		return err
	}
	ch, err := p.Renew(ctx)
	if err != nil {
		return explainPayer(err)
	}
	return c.printChannel(console, ch)
}

type channelReconcile struct {
	oneChannel

	Write bool `env:"-" help:"Record the chain's state in the server."`
}

// Help describes the command and returns examples.
func (channelReconcile) Help() string {
	return `Reads a channel from the chain, and prints its state in the server and on the chain. With --write,
the server records the chain's, also if it is less than a fullnode has shown before: the amount
withdrawn counts as settled. It is for a server with data that is older than the chain, as after a
restored backup, or that has believed a fullnode which lied. sluice check --books lists each amount lowered.

` + examples("sluice channel reconcile PN2GSKYIOXGVHYTJIRCOBD7OL5", "sluice channel reconcile PN2GSKYIOXGVHYTJIRCOBD7OL5 --write")
}

// Run compares the channel.
func (c *channelReconcile) Run(ctx context.Context, console *console) error {
	of, err := c.client(console)
	if err != nil {
		return err
	}
	r, err := of.Reconcile(ctx, c.ID, c.Write)
	if err != nil {
		return err
	}
	if err := c.printReconciliation(console, r); err != nil || c.Write {
		return err
	}
	return c.remark(console, "nothing was recorded: --write does that")
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
