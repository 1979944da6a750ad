// Package payments has the commands for accounts, channels and sessions, and the payments of reads.
package payments

import (
	"context"
	"errors"
	"fmt"

	"sluice/client"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/units"
)

// Pay buys a session: it opens a channel if there is none, signs a micropayment, and sends
// it.
type Pay struct {
	paymentCommand
	payerFlags

	Chunksets  int64  `env:"-" default:"100" help:"How many chunksets the session must have left. Nothing is bought if it has them."`
	Faucet     uint64 `env:"-" placeholder:"AMOUNT" help:"Get this amount from the faucet of a local instance before: it opens the channel, or adds to its deposit. What was done is printed step by step."`
	NewChannel bool   `env:"-" help:"Close the channel of the state file, if it is open, and pay over another."`
	WriteOff   bool   `env:"-" help:"Give up a purchase that the server was paid for and did not deliver, so that further purchases can be made, and print the loss."`
}

// Validate checks the flags.
func (c *Pay) Validate() error {
	if c.Chunksets < 1 {
		return fmt.Errorf("--chunksets %d: must be at least 1", c.Chunksets)
	}
	return c.limited()
}

// printedPayment is the result in JSON.
type printedPayment struct {
	printedSession

	ChannelID        string `json:"channelId"`
	PaymentChannelID uint64 `json:"paymentChannelId,string"`
	Spent            uint64 `json:"spent,string"`
	StateFile        string `json:"stateFile"`
}

// Run buys the session.
func (c *Pay) Run(ctx context.Context, console *cli.Console) error {
	of, err := c.client(console)
	if err != nil {
		return err
	}
	p, file, err := c.payer(ctx, console, of, 1)
	if err != nil {
		return err
	}
	if c.WriteOff {
		lost, err := p.WriteOff(ctx)
		if err != nil {
			return err
		}
		return cli.PrintLine(console.Err, fmt.Sprintf("%d units may be lost", lost))
	}
	if c.NewChannel {
		if _, err := p.CloseChannel(ctx); err != nil && !cli.AnyOf(err, client.ErrGone, client.ErrNotFound) {
			return err
		}
	}
	if c.Faucet > 0 {
		if p, file, err = c.fund(ctx, console, of, p); err != nil {
			return err
		}
	}
	s, err := p.Ensure(ctx, c.Chunksets)
	switch {
	case errors.Is(err, client.ErrGone):
		return fmt.Errorf("%w; sluice pay --new-channel opens another", err)
	case errors.Is(err, client.ErrOutcomeUnknown):
		return fmt.Errorf("%w; call sluice pay again: it finds out, and pays nothing twice", err)
	case err != nil:
		return explainPayer(err)
	}
	st, err := p.Status(ctx)
	if err != nil {
		return err
	}
	if c.Faucet > 0 && !c.JSON {
		if err := c.explain(console, of, st, s); err != nil {
			return err
		}
	}
	if st.Added == 0 && c.Faucet == 0 && !c.JSON {
		if err := c.Remark(console, fmt.Sprintf("nothing was bought: the session has %s left", units.Count(s.ChunksetsLeft, "chunkset"))); err != nil {
			return err
		}
	}
	return c.ResultWithRemarks(console, printedPayment{newPrintedSession(s), st.ChannelID, st.PaymentChannelID, st.Spent, file}, terminal.Text(s.ID), leftIn(s),
		fmt.Sprintf("channel %s, %d of at most %d units spent", terminal.Text(st.ChannelID), st.Spent, c.MaxSpend),
		"state in "+terminal.Name(file))
}

// fund gets the amount of --faucet, and returns a payer that uses the channel which has it.
func (c *Pay) fund(ctx context.Context, console *cli.Console, of *client.Client, p *client.Payer) (*client.Payer, string, error) {
	st, err := p.Status(ctx)
	if err != nil {
		return nil, "", err
	}
	number := st.PaymentChannelID
	if st.ChannelID == "" {
		number = 0 // the outcome of its request is not known
	}
	ch, err := of.Faucet(ctx, st.Account, c.Faucet, number)
	switch {
	case errors.Is(err, client.ErrNotFound):
		return nil, "", cli.ExitWith(cli.ExitNotFound, errors.New("the server has no faucet: only a local instance with --reads paid and without --chain-url has one"))
	case errors.Is(err, client.ErrGone):
		return nil, "", fmt.Errorf("%w; sluice pay --new-channel opens another", err)
	case err != nil:
		return nil, "", err
	}
	if st.ChannelID == "" {
		c.Channel = ch.ID
	}
	if err := errors.Join(c.Remark(console, "1. Account "+st.Account+" pays."),
		c.Remark(console, fmt.Sprintf("2. The faucet has put %s into the channel %s, whose deposit is now %s.",
			units.Count(c.Faucet, "unit"), terminal.Text(ch.ID), units.Count(ch.Deposit, "unit")))); err != nil {
		return nil, "", err
	}
	return c.payer(ctx, console, of, 1)
}

// explain describes the payer's steps after fund, and how to use the session.
func (c *Pay) explain(console *cli.Console, of *client.Client, st client.PayerStatus, s client.Session) error {
	step := "3. The session had enough chunksets, so nothing was signed."
	if st.Added > 0 {
		step = fmt.Sprintf("3. The account has signed a micropayment of %s in all, %s more than before.", units.Count(st.Signed, "unit"), units.Count(st.Added, "unit"))
	}
	return errors.Join(c.Remark(console, step),
		c.Remark(console, fmt.Sprintf("4. The server has sold the session below. To read a blob with it:\n   curl -H 'Session-Id: %s' %s/v1/blobs/ACCOUNT/NAME",
			terminal.Text(s.ID), terminal.Text(of.URL()))))
}
