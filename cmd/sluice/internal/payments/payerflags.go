package payments

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
	"sluice/cmd/sluice/internal/accountkey"
	"sluice/cmd/sluice/internal/cli"
	"sluice/wire"
)

// payerFlags configure a payer. Commands that pay embed them.
type payerFlags struct {
	MaxPrice         *uint64 `env:"-" placeholder:"AMOUNT" help:"Greatest price of a chunkset to pay, in units of the asset. Required to pay; see sluice info."`
	MaxSpend         *uint64 `env:"-" placeholder:"AMOUNT" help:"Highest sum of all that is ever paid with the state file. Required to pay."`
	Deposit          uint64  `env:"-" placeholder:"AMOUNT" help:"Deposit of a channel that is opened. On a chain it is made there. Default: the server's, 1000000."`
	Channel          string  `env:"-" placeholder:"ID" help:"Open channel to use, instead of one that is opened."`
	PaymentChannelID uint64  `name:"payment-channel-id" env:"-" placeholder:"NUMBER" help:"Number of a channel that the account has opened on the chain, to make it known to a server that collects there. Required for the first payment to one, unless --channel is used."`

	Withdrawn uint64 `env:"-" placeholder:"AMOUNT" help:"Amount that was withdrawn from the channel on the chain, as you have seen it there, if the state file does not know it: the server is not believed without a signature."`

	ownPayer
}

// ownPayer names a payer's key pair and state.
type ownPayer struct {
	AccountFile string `env:"-" type:"path" placeholder:"FILE" help:"Key pair that signs. Default: the key pair of sluice account new."`
	StateFile   string `env:"-" type:"path" placeholder:"FILE" help:"File that keeps count of the signed payments. Default: one for the account and the server, beside the contexts."`
}

// limited returns an error unless the flags limit payments.
func (f *payerFlags) limited() error {
	switch {
	case f.MaxPrice == nil:
		return errors.New("--max-price AMOUNT is required: sluice info prints the price of a chunkset")
	case f.MaxSpend == nil:
		return errors.New("--max-spend AMOUNT is required: it limits the sum of all payments")
	case *f.MaxPrice == 0 || *f.MaxSpend == 0:
		return errors.New("--max-price and --max-spend: 0 units buy nothing; without the flags, reads that are free are free")
	}
	return nil
}

// payer returns the payer that the flags describe, which buys so many chunksets at a time, and its
// state file.
func (f *payerFlags) payer(ctx context.Context, console *cli.Console, of *client.Client, chunksets int64) (*client.Payer, string, error) {
	return f.open(ctx, of, client.PayerOptions{
		MaxPrice: *f.MaxPrice, MaxSpend: *f.MaxSpend, Chunksets: chunksets, Deposit: f.Deposit, ChannelID: f.Channel, PaymentChannelID: f.PaymentChannelID, Withdrawn: f.Withdrawn,
		OnWait: func(ch client.Channel) { console.Awaits(unsettled(ch)) },
	})
}

// open returns the payer with these options, its key pair and its state, and the state file.
func (f *ownPayer) open(ctx context.Context, of *client.Client, o client.PayerOptions) (*client.Payer, string, error) {
	own, err := accountkey.DefaultFile()
	if err != nil {
		return nil, "", err
	}
	keyFile := f.AccountFile
	if keyFile == "" {
		keyFile = own
	}
	k, err := accountkey.Read(keyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", cli.ExitWith(cli.ExitNotFound, err)
	}
	if err != nil {
		return nil, "", err
	}
	state := f.StateFile
	if state == "" {
		sum := sha256.Sum256([]byte(of.URL() + "\n" + k.Address().String()))
		if err := os.MkdirAll(filepath.Dir(own), 0o700); err != nil {
			return nil, "", err
		}
		state = filepath.Join(filepath.Dir(own), "payer-"+hex.EncodeToString(sum[:8])+".json")
	}
	o.Signer, o.StateFile = k.Signer(), state
	p, err := of.NewPayer(ctx, o)
	return p, state, err
}

// reports reports whether the server reported err, with a code.
func reports(err error, code wire.Code) bool {
	e, reported := errors.AsType[*client.Error](err)
	return reported && e.Code == code
}

// explainPayer returns a payer's error, with advice.
func explainPayer(err error) error {
	switch {
	case errors.Is(err, client.ErrBudget):
		return fmt.Errorf("%w; --max-price and --max-spend set the budget", err)
	case errors.Is(err, client.ErrNoChannel):
		return fmt.Errorf("%w, which is --payment-channel-id", err)
	case errors.Is(err, client.ErrUnproven):
		return fmt.Errorf("%w, which is --withdrawn", err)
	case errors.Is(err, client.ErrOtherChannel):
		return fmt.Errorf("%w; sluice pay --new-channel closes that, and --state-file names another file", err)
	case reports(err, wire.CodeChannelExists):
		return fmt.Errorf("%w; PayerOptions.ChannelID is --channel", err)
	case errors.Is(err, client.ErrNotDelivered):
		return fmt.Errorf("%w; sluice pay --write-off gives the purchase up", err)
	default:
		return err
	}
}

// unsettled returns the amount that the server has accepted over the channel and not collected.
func unsettled(ch client.Channel) uint64 { return ch.Accepted - min(ch.Accepted, ch.Settled) }
