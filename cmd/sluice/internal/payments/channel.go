package payments

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"time"

	"sluice/client"
	"sluice/cmd/sluice/internal/accountkey"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/units"
	"sluice/wire"
)

// Channel manages payment channels.
type Channel struct {
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

// Run opens the channel, and prints its id alone to stdout.
func (c *channelOpen) Run(ctx context.Context, console *cli.Console) error {
	o := client.OpenChannelOptions{Sender: c.Sender, Deposit: c.Deposit, Asset: c.Asset, PaymentChannelID: c.PaymentChannelID, IdempotencyKey: c.IdempotencyKey}
	var err error
	if o.Sender == "" {
		if o.Sender, err = ownAddress(); err != nil {
			return err
		}
	}
	if c.Expires != (units.When{}) {
		if o.Expires, err = c.Expires.From(time.Now()); err != nil {
			return cli.ExitWith(cli.ExitUsage, fmt.Errorf("--expires: %w", err))
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
	return c.ResultWithRemarks(console, newPrintedChannel(ch), terminal.Text(ch.ID), fmt.Sprintf("deposit %d, expires %s", ch.Deposit, cli.TimeText(ch.Expires)))
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

// Run prints the channel.
func (c *channelShow) Run(ctx context.Context, console *cli.Console) error {
	return c.channel(console, func(of *client.Client) (client.Channel, error) { return of.Channel(ctx, c.ID) })
}

type channelDeposit struct {
	oneChannel

	Amount         string `arg:"" help:"Amount in units of the asset."`
	IdempotencyKey string `env:"-" placeholder:"KEY" help:"Name of this request: calls with the same one within 24 hours add the amount once."`
}

// Run adds the amount.
func (c *channelDeposit) Run(ctx context.Context, console *cli.Console) error {
	amount, err := strconv.ParseUint(c.Amount, 10, 63)
	if err != nil || amount == 0 {
		return cli.Usagef("AMOUNT: want a whole number from 1 to 2^63-1, not %q", c.Amount)
	}
	return c.channel(console, func(of *client.Client) (client.Channel, error) {
		return of.Deposit(ctx, c.ID, amount, client.DepositOptions{IdempotencyKey: c.IdempotencyKey})
	})
}

type channelRenew struct {
	paymentCommand
	ownPayer
}

// Run renews the payment.
func (c *channelRenew) Run(ctx context.Context, console *cli.Console) error {
	return c.channel(console, func(of *client.Client) (client.Channel, error) {
		// The limits concern purchases.
		p, _, err := c.open(ctx, of, client.PayerOptions{MaxPrice: math.MaxInt64, MaxSpend: math.MaxInt64})
		if err != nil {
			return client.Channel{}, err
		}
		ch, err := p.Renew(ctx)
		return ch, explainPayer(err)
	})
}

type channelReconcile struct {
	oneChannel

	Write bool `env:"-" help:"Record the chain's state in the server."`
}

// Run compares the channel.
func (c *channelReconcile) Run(ctx context.Context, console *cli.Console) error {
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
	return c.Remark(console, "nothing was recorded: --write does that")
}

type channelClose struct{ oneChannel }

// Run closes the channel.
func (c *channelClose) Run(ctx context.Context, console *cli.Console) error {
	return c.channel(console, func(of *client.Client) (client.Channel, error) { return of.CloseChannel(ctx, c.ID) })
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

func newPrintedChannel(ch client.Channel) printedChannel {
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
		refund := amountText(ch.Refund)
		p.Refund = &refund
	}
	for _, s := range ch.Sessions {
		p.Sessions = append(p.Sessions, channelSession{s.ID, s.ChunksetsLeft, s.Expires})
	}
	return p
}

// channelFacts returns a channel's names and values.
func channelFacts(ch client.Channel) [][2]string {
	facts := [][2]string{
		{"channel", ch.ID},
		{"payment id", amountText(ch.PaymentChannelID)},
		{"sender", cmp.Or(ch.Sender, "who makes the first payment")},
		{"receiver", ch.Receiver},
		{"asset", ch.Asset},
		{"state", ch.State},
		{"deposit", amountText(ch.Deposit)},
		{"paid", amountText(ch.Accepted)},
		{"credit", amountText(ch.Credit)},
		{"settled", amountText(ch.Settled)},
		{"unsettled", amountText(unsettled(ch))},
		{"stopped because", ch.Stopped},
	}
	for _, optional := range []struct {
		present bool
		name    string
		value   string
	}{
		{ch.SellingLimit < math.MaxInt64, "selling limit", amountText(ch.SellingLimit)},
		{ch.Expired > 0, "expired", amountText(ch.Expired) + ", which sluice channel renew lets the server collect"},
		{ch.Elsewhere > 0, "elsewhere", amountText(ch.Elsewhere) + " withdrawn that the server did not collect"},
		{ch.State == "closed", "refund", amountText(ch.Refund)},
	} {
		if optional.present {
			facts = append(facts, [2]string{optional.name, optional.value})
		}
	}
	facts = append(facts, [2]string{"expires", cli.TimeText(ch.Expires)})
	for _, s := range ch.Sessions {
		facts = append(facts, [2]string{"session", fmt.Sprintf("%s with %d chunksets left", s.ID, s.ChunksetsLeft)})
	}
	return facts
}

func amountText(n uint64) string { return strconv.FormatUint(n, 10) }

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
func (c *paymentCommand) printReconciliation(console *cli.Console, r client.Reconciliation) error {
	if c.JSON {
		p := printedReconciliation{Channel: newPrintedChannel(r.Channel)}
		if of := r.Chain; of != nil {
			p.Chain = &printedChainState{of.Deposit, of.Withdrawn, of.NextSequence, of.Expires}
		}
		if r.After != nil {
			after := newPrintedChannel(*r.After)
			p.After = &after
		}
		return terminal.WriteJSON(console.Out, p)
	}
	// Each column has the values of these rows.
	rows := []string{"", "deposit", "paid", "settled", "unsettled", "elsewhere", "next sequence number", "expires", "state"}
	books := func(title string, ch *client.Channel) []string {
		return []string{title, amountText(ch.Deposit), amountText(ch.Accepted), amountText(ch.Settled), amountText(unsettled(*ch)), amountText(ch.Elsewhere), amountText(ch.Sequence + 1), cli.TimeText(ch.Expires), ch.State}
	}
	chain := []string{"chain", "", "", "", "", "", "", "", "does not exist"}
	if of := r.Chain; of != nil {
		chain = []string{"chain", amountText(of.Deposit), "", amountText(of.Withdrawn), "", "", amountText(of.NextSequence), cli.TimeText(of.Expires), "exists"}
	}
	columns := [][]string{rows, books("server", &r.Channel), chain}
	if r.After != nil {
		columns = append(columns, books("recorded", r.After))
	}
	table := cli.NewTable(console.Out, "")
	for i := range rows {
		var cells []string
		for _, column := range columns {
			cells = append(cells, column[i])
		}
		if err := table.Row(nil, cells...); err != nil {
			return err
		}
	}
	return table.Flush()
}

// channel calls fn, and prints the channel that it returns.
func (c *paymentCommand) channel(console *cli.Console, fn func(of *client.Client) (client.Channel, error)) error {
	of, err := c.client(console)
	if err != nil {
		return err
	}
	ch, err := fn(of)
	if err != nil {
		return err
	}
	return c.Facts(console, newPrintedChannel(ch), channelFacts(ch))
}
