package payments

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"sluice/client"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/units"
	"sluice/wire"
)

// ReadFlags choose how paid reads are paid. Commands that read blobs embed them.
type ReadFlags struct {
	Pay          bool   `env:"-" group:"Paid reads:" help:"Buy the chunksets that paid reads need, with the key pair of an account. --max-price and --max-spend are required."`
	Session      string `env:"-" group:"Paid reads:" placeholder:"ID" help:"Session that pays, as sluice pay prints it. Nothing is bought."`
	MaxChunksets *int64 `env:"-" group:"Paid reads:" placeholder:"NUMBER" help:"How many chunksets the command may be charged. Default: as many as the other limits permit."`
	Purchase     int64  `env:"-" group:"Paid reads:" placeholder:"NUMBER" default:"1" help:"Least number of chunksets of a purchase. The rest in the session pays for later reads."`

	payerFlags `embed:"" group:"Paid reads:"`
}

// Validate checks the flags.
func (f *ReadFlags) Validate() error {
	pays := f.payerFlags != payerFlags{}
	switch {
	case f.Pay && f.Session != "":
		return errors.New("--pay and --session both choose who pays: use one of them")
	case !f.Pay && (pays || f.Purchase != 1):
		return errors.New("--max-price, --max-spend and the other limits of purchases require --pay")
	case f.MaxChunksets != nil && !f.Pay && f.Session == "":
		return errors.New("--max-chunksets requires --pay or --session")
	case f.MaxChunksets != nil && *f.MaxChunksets < 1:
		return fmt.Errorf("--max-chunksets %d: must be at least 1", *f.MaxChunksets)
	case f.Purchase < 1:
		return fmt.Errorf("--purchase %d: must be at least 1", f.Purchase)
	case f.Pay:
		return f.limited()
	}
	return nil
}

// PaidReads pays for a command's reads, which share its limits.
type PaidReads struct {
	payment  *client.Payment // nil: reads are not paid
	maxSpend uint64
	file     string // with the state
}

// Reads returns the payment for the reads from a server.
func (f *ReadFlags) Reads(ctx context.Context, console *cli.Console, from *client.Client) (*PaidReads, error) {
	if !f.Pay && f.Session == "" {
		return &PaidReads{}, nil
	}
	if from == nil {
		return nil, cli.Usagef("the source is local: --pay and the other flags for paid reads have no meaning")
	}
	r := &PaidReads{payment: &client.Payment{SessionID: f.Session}}
	if f.MaxChunksets != nil {
		r.payment.MaxChunksets = *f.MaxChunksets
	}
	if !f.Pay {
		return r, nil
	}
	var err error
	r.maxSpend = *f.MaxSpend
	r.payment.Payer, r.file, err = f.payer(ctx, console, from, f.Purchase)
	return r, err
}

// Options returns a read's options.
func (r *PaidReads) Options() client.GetOptions { return client.GetOptions{Payment: r.payment} }

// Downloads returns the options of a read into a file.
func (r *PaidReads) Downloads() client.DownloadOptions {
	return client.DownloadOptions{GetOptions: r.Options()}
}

// Explain returns a read's error, with advice if it was not paid for.
func (r *PaidReads) Explain(err error) error {
	if !errors.Is(err, client.ErrPaymentRequired) {
		return explainPayer(err)
	}
	e, reported := errors.AsType[*client.Error](err)
	switch {
	case r.payment == nil:
		return fmt.Errorf("%w; --pay --max-price AMOUNT --max-spend AMOUNT buys the chunksets, and --session ID pays with a session of sluice pay", err)
	case r.payment.MaxChunksets > 0 && (!reported || e.Code == wire.CodeChargeAboveLimit):
		return fmt.Errorf("%w; --max-chunksets sets the limit", err)
	case r.payment.Payer == nil:
		return fmt.Errorf("%w; sluice pay adds chunksets to its session, and buys new ones when it has expired", err)
	default:
		return err
	}
}

// printedSpending is a command's spending, in JSON. Amounts are in the asset's units.
type printedSpending struct {
	Status           string `json:"status"` // "paid"
	ChunksetsCharged int64  `json:"chunksetsCharged"`
	ChunksetsInDoubt int64  `json:"chunksetsInDoubt"` // among those charged: the responses were lost
	Spent            uint64 `json:"spent,string"`
	TotalSpent       uint64 `json:"totalSpent,omitempty,string"` // with the state file
	SessionID        string `json:"sessionId,omitempty"`
	ChannelID        string `json:"channelId,omitempty"`
	StateFile        string `json:"stateFile,omitempty"`
}

// statusTimeout limits how long a command waits at its end for another that uses the same state
// file.
const statusTimeout = 10 * time.Second

// Report prints the spending, even after a failure or an interruption, as JSON to stdout or as a
// line to stderr.
func (r *PaidReads) Report(ctx context.Context, console *cli.Console, output cli.OutputFlags) error {
	if r == nil || r.payment == nil {
		return nil
	}
	p := printedSpending{Status: "paid", ChunksetsCharged: r.payment.Charged(), ChunksetsInDoubt: r.payment.InDoubt(), SessionID: r.payment.SessionID}
	if payer := r.payment.Payer; payer != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statusTimeout)
		defer cancel()
		st, err := payer.Status(ctx)
		if err != nil {
			return cli.About(fmt.Sprintf("%s charged, and the spending is unknown", units.Count(p.ChunksetsCharged, "chunkset")), err)
		}
		p.Spent, p.TotalSpent, p.SessionID, p.ChannelID, p.StateFile = st.Added, st.Spent, st.SessionID, st.ChannelID, r.file
	}
	switch {
	case output.JSON:
		return terminal.WriteJSON(console.Out, p)
	case output.Quiet:
		return nil
	default:
		return r.write(console.Err, p)
	}
}

func (r *PaidReads) write(out io.Writer, p printedSpending) error {
	line := fmt.Sprintf("%s charged", units.Count(p.ChunksetsCharged, "chunkset"))
	if p.ChunksetsInDoubt > 0 {
		line += fmt.Sprintf(", %d of them in doubt", p.ChunksetsInDoubt)
	}
	if r.payment.Payer != nil {
		line += fmt.Sprintf("; %s spent, %d in all, of at most %d", units.Count(p.Spent, "unit"), p.TotalSpent, r.maxSpend)
		if p.TotalSpent > r.maxSpend {
			line += ", which earlier commands have exceeded"
		}
	}
	return cli.PrintLine(out, line)
}
