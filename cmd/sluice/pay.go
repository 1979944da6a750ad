package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sluice/client"
	"sluice/internal/accountkey"
	"sluice/internal/terminal"
)

// payCommand buys a session: it opens a channel if there is none, signs a micropayment, and sends it.
type payCommand struct {
	paymentCommand

	Chunksets   int64  `env:"-" default:"100" help:"How many chunksets the session must have left. Nothing is bought if it has them."`
	MaxPrice    uint64 `env:"-" placeholder:"AMOUNT" help:"Highest price of a chunkset to pay, in units of the asset. Required; see sluice info."`
	MaxSpend    uint64 `env:"-" placeholder:"AMOUNT" help:"Highest sum of all that is ever paid with the state file. Required."`
	Deposit     uint64 `env:"-" placeholder:"AMOUNT" help:"Deposit of a channel that is opened. Default: that of the server, 1000000."`
	Channel     string `env:"-" placeholder:"ID" help:"Open channel to use, instead of one that is opened."`
	AccountFile string `env:"-" type:"path" placeholder:"FILE" help:"Key pair that signs. Default: that of sluice account new."`
	StateFile   string `env:"-" type:"path" placeholder:"FILE" help:"File that keeps count of what was signed. Default: one for the account and the server, beside the contexts."`
	NewChannel  bool   `env:"-" help:"Close the channel of the state file, if it is open, and pay over another."`
	WriteOff    bool   `env:"-" help:"Give up a purchase that the server was paid for and did not deliver, so that others can be made, and print what is lost."`
}

// Help describes the command and returns examples.
func (payCommand) Help() string {
	return `Buys a session for paid reads, or adds to the one that was bought before: it opens a payment
channel, signs a micropayment and sends it. It prints the id of the session, and what was paid to
stderr. If it is interrupted, or an answer is lost, the next call goes on, and nothing is paid twice.
The terms of payment of the server are kept in the state file, and no others are paid.

` + examples("sluice pay --max-price 1 --max-spend 1000", "sluice pay --chunksets 500 --max-price 1 --max-spend 1000 --json",
		"sluice pay --max-price 1 --max-spend 1000 --context prod --channel PN2GSKYIOXGVHYTJIRCOBD7OL5")
}

// Validate checks the flags.
func (c *payCommand) Validate() error {
	switch {
	case c.Chunksets < 1:
		return fmt.Errorf("--chunksets %d: must be at least 1", c.Chunksets)
	case c.MaxPrice == 0:
		return errors.New("--max-price AMOUNT is required: sluice info prints the price of a chunkset")
	case c.MaxSpend == 0:
		return errors.New("--max-spend AMOUNT is required: it limits the sum of all payments")
	}
	return nil
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
func (c *payCommand) Run(ctx context.Context, console *console) error {
	of, err := c.client()
	if err != nil {
		return err
	}
	p, file, err := c.payer(ctx, of)
	if err != nil {
		return err
	}
	if c.WriteOff {
		lost, err := p.WriteOff(ctx)
		if err != nil {
			return err
		}
		return printLine(console.err, fmt.Sprintf("%d units may be lost", lost))
	}
	if c.NewChannel {
		if _, err := p.CloseChannel(ctx); err != nil && !anyOf(err, client.ErrGone, client.ErrNotFound) {
			return err
		}
	}
	s, err := p.Ensure(ctx, c.Chunksets)
	switch {
	case errors.Is(err, client.ErrBudget):
		return fmt.Errorf("%w; --max-price and --max-spend set the budget", err)
	case errors.Is(err, client.ErrGone):
		return fmt.Errorf("%w; sluice pay --new-channel opens another", err)
	case errors.Is(err, client.ErrNotDelivered):
		return fmt.Errorf("%w; sluice pay --write-off gives the purchase up", err)
	case errors.Is(err, client.ErrOutcomeUnknown):
		return fmt.Errorf("%w; call sluice pay again: it finds out, and pays nothing twice", err)
	case err != nil:
		return err
	}
	st, err := p.Status(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		session := printedSession{s.ID, s.UserIdentity, s.ChunksetsLeft, s.ChunksetsTotal, s.Created, s.Expires}
		return terminal.WriteJSON(console.out, printedPayment{session, st.ChannelID, st.PaymentChannelID, st.Spent, file})
	}
	return errors.Join(c.print(console, s), printLine(console.err,
		fmt.Sprintf("channel %s, %d of at most %d units spent, state in %s", terminal.Text(st.ChannelID), st.Spent, c.MaxSpend, terminal.Name(file))))
}

// payer returns the payer of the flags, and its state file.
func (c *payCommand) payer(ctx context.Context, of *client.Client) (*client.Payer, string, error) {
	own, err := accountkey.DefaultFile()
	if err != nil {
		return nil, "", err
	}
	keyFile := c.AccountFile
	if keyFile == "" {
		keyFile = own
	}
	k, err := accountkey.Read(keyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", exitWith(exitNotFound, err)
	}
	if err != nil {
		return nil, "", err
	}
	state := c.StateFile
	if state == "" {
		sum := sha256.Sum256([]byte(of.URL() + "\n" + k.Address().String()))
		if err := os.MkdirAll(filepath.Dir(own), 0o700); err != nil {
			return nil, "", err
		}
		state = filepath.Join(filepath.Dir(own), "payer-"+hex.EncodeToString(sum[:8])+".json")
	}
	p, err := of.NewPayer(ctx, client.PayerOptions{
		Signer: k.Signer(), StateFile: state, MaxPrice: c.MaxPrice, MaxSpend: c.MaxSpend, Chunksets: 1, Deposit: c.Deposit, ChannelID: c.Channel,
	})
	return p, state, err
}
