package chain

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/fullnode"
	"sluice/micropay"
)

// recordedTime is when the recorded submissions were made. They expire a minute later.
var recordedTime = time.Unix(1_760_000_000, 0).UTC()

// onChain is a fullnode for tests, with the channel of the first recorded submission.
type onChain struct {
	*fullnode.Node
	of      *micropay.Collection
	payment *micropay.Micropayment
}

func startFullnode(t *testing.T) *onChain {
	t.Helper()
	m, err := micropay.ParseBase64(readRecorded(t).Vectors[0].Micropayment)
	if err != nil {
		t.Fatal(err)
	}
	n := &onChain{fullnode.Start(t, fullnode.Options{}), collection(t), m}
	n.reset()
	return n
}

func (n *onChain) reset() {
	m := n.payment
	n.Reset(fullnode.Options{Clock: recordedTime})
	n.Open(fullnode.Channel{
		Sender: m.Sender.String(), Receiver: m.Receiver.String(), Asset: m.Asset.String(), ID: m.PaymentChannelID,
		Deposit: m.Amount + 5, Created: fullnode.Time{Time: recordedTime}, Expires: fullnode.Time{Time: recordedTime.Add(time.Hour)},
	})
}

// client returns a client that asks the fullnode again without a pause if it fails.
func (n *onChain) client(t *testing.T) *Client {
	t.Helper()
	return newClient(t, Options{
		ChainID: fullnode.DefaultChainID, Module: parseAddress(t, fullnode.DefaultModule),
		Nodes: slices.Repeat([]string{n.URL()}, 20), Rounds: 1, APIKey: "canary",
	})
}

// channel returns the channel as the fullnode states it.
func (n *onChain) channel(t *testing.T, c *Client) Channel {
	t.Helper()
	channels, err := c.Channels(t.Context(), n.payment.Sender, n.payment.Receiver)
	if err != nil || len(channels.List) != 1 || !channels.Ledger.Equal(recordedTime) {
		t.Fatalf("%+v, %v", channels, err)
	}
	return channels.List[0]
}

// expect fails the test unless the fullnode states this state of the transaction, at the time of its ledger.
func (n *onChain) expect(t *testing.T, c *Client, want Transaction) {
	t.Helper()
	want.Ledger = recordedTime
	if got, err := c.Transaction(t.Context(), n.of.Hash); err != nil || got != want {
		t.Errorf("the transaction is %+v, %v\nwant %+v", got, err, want)
	}
}

var succeeded = Transaction{State: StateExecuted, Success: true, VMStatus: "Executed successfully", GasUsed: 12, Version: 3}

// TestCollectOnAFullnode asks a fullnode that verifies transactions with the chain's own package, before, between
// and after the submission and the execution of one.
func TestCollectOnAFullnode(t *testing.T) {
	n := startFullnode(t)
	c := n.client(t)
	if l, err := c.Ledger(t.Context()); err != nil || l.ChainID != fullnode.DefaultChainID || !l.Time.Equal(recordedTime) {
		t.Errorf("%+v, %v", l, err)
	}
	if prices, err := c.GasPrices(t.Context()); err != nil || prices != (GasPrices{100, 100, 150}) {
		t.Errorf("%+v, %v", prices, err)
	}
	m := n.payment
	before := Channel{
		PaymentChannelID: m.PaymentChannelID, Asset: m.Asset, Balance: m.Amount + 5,
		Created: recordedTime, Expires: recordedTime.Add(time.Hour),
	}
	if got := n.channel(t, c); got != before {
		t.Errorf("the channel is %+v, want %+v", got, before)
	}
	n.expect(t, c, Transaction{State: StateUnknown})
	n.Hold()
	for range 2 {
		if err := c.Submit(t.Context(), n.of); err != nil {
			t.Fatal(err)
		}
	}
	n.expect(t, c, Transaction{State: StatePending})
	n.Execute()
	n.expect(t, c, succeeded)
	after := before
	after.Balance, after.Withdrawn, after.NextSequence = 5, m.Amount, m.Sequence+1
	if got := n.channel(t, c); got != after {
		t.Errorf("the channel is %+v, want %+v", got, after)
	}
	for version, want := range map[uint64][]Channel{1: nil, 2: {before}, 3: {after}} {
		if got, err := c.ChannelsAt(t.Context(), version, m.Sender, m.Receiver); err != nil || !slices.Equal(got.List, want) {
			t.Errorf("at version %d the channels are %+v, %v, want %+v", version, got.List, err, want)
		}
	}
	refusal, ok := errors.AsType[*Error](func() error { _, err := c.ChannelsAt(t.Context(), 4, m.Sender, m.Receiver); return err }())
	if !ok || refusal.Status != http.StatusNotFound {
		t.Errorf("at a version of the future: %v", refusal)
	}
	if executed := n.Executed(); len(executed) != 1 || executed[0].Paid != m.Amount {
		t.Errorf("executed %+v", executed)
	}
	for _, r := range n.Requests(fullnode.Submit) {
		if r.Authorization != "Bearer canary" {
			t.Errorf("authorization %q", r.Authorization)
		}
	}
}

// TestCallsOutlastEachFault makes each call of a fullnode that fails in each way when it is first asked.
func TestCallsOutlastEachFault(t *testing.T) {
	n := startFullnode(t)
	calls := map[fullnode.Operation]func(*testing.T, *Client) error{
		fullnode.Ledger: func(t *testing.T, c *Client) error { _, err := c.Ledger(t.Context()); return err },
		fullnode.Gas:    func(t *testing.T, c *Client) error { _, err := c.GasPrices(t.Context()); return err },
		fullnode.Lookup: func(t *testing.T, c *Client) error { _, err := c.Transaction(t.Context(), n.of.Hash); return err },
		fullnode.Submit: func(t *testing.T, c *Client) error { return c.Submit(t.Context(), n.of) },
		fullnode.View: func(t *testing.T, c *Client) error {
			_, err := c.Channels(t.Context(), n.payment.Sender, n.payment.Receiver)
			return err
		},
	}
	for name, fault := range map[string]fullnode.Fault{
		"lost request":    {Effect: fullnode.Skip, Answer: fullnode.Cut},
		"lost response":   {Answer: fullnode.Cut},
		"garbage":         {Answer: fullnode.Garbage},
		"overloaded":      {Effect: fullnode.Skip, Answer: fullnode.WrongStatus, Status: http.StatusTooManyRequests, RetryAfter: 1},
		"unavailable":     {Effect: fullnode.Skip, Answer: fullnode.WrongStatus, Status: http.StatusServiceUnavailable},
		"failing proxy":   {Answer: fullnode.WrongStatus, Status: http.StatusBadGateway},
		"hanging request": {Effect: fullnode.Skip, Answer: fullnode.Hang},
		"hanging":         {Answer: fullnode.Hang},
		"slow":            {Delay: time.Millisecond},
	} {
		for operation, call := range calls {
			t.Run(name+" "+string(operation), func(t *testing.T) {
				n.reset()
				n.Hold()
				fault.On, fault.Times = operation, 1
				n.Fail(fault)
				c := n.client(t)
				want := 2
				switch fault.Answer {
				case fullnode.Hang:
					c.timeout = 200 * time.Millisecond
				case fullnode.Answers:
					want = 1
				}
				if err := call(t, c); err != nil {
					t.Errorf("error %v", err)
				}
				if got := len(n.Requests(operation)); got < want {
					t.Errorf("%d requests, want %d", got, want)
				}
				n.Execute()
				if executed := n.Executed(); operation == fullnode.Submit && (len(executed) != 1 || !executed[0].Success) || operation != fullnode.Submit && len(executed) > 0 {
					t.Errorf("executed %+v", executed)
				}
			})
		}
	}
	t.Run("other chain", func(t *testing.T) {
		for operation, call := range calls {
			n.reset()
			n.SetChain(5)
			if err := call(t, n.client(t)); !errors.Is(err, ErrUnavailable) || !errors.Is(err, ErrWrongChain) {
				t.Errorf("%s: error %v", operation, err)
			}
		}
	})
}

// TestOutcomesOfSubmissions shows what a client learns of a transaction that was not simply accepted and executed.
func TestOutcomesOfSubmissions(t *testing.T) {
	n := startFullnode(t)
	submit := func(t *testing.T) (*Client, error) {
		c := n.client(t)
		return c, c.Submit(t.Context(), n.of)
	}
	refused := func(t *testing.T, err error, name string) {
		t.Helper()
		if e, ok := errors.AsType[*Error](err); !ok || e.Status != http.StatusBadRequest || e.Code != "vm_error" || !strings.Contains(e.Message, name) {
			t.Errorf("error %v, want %s", err, name)
		}
	}
	t.Run("executed, and the response lost", func(t *testing.T) {
		n.reset()
		n.Fail(fullnode.Fault{On: fullnode.Submit, Times: 1, Answer: fullnode.Cut})
		c, err := submit(t)
		// The client asks again, and the fullnode refuses what is executed already.
		refused(t, err, "NONCE_ALREADY_USED")
		n.expect(t, c, succeeded)
		if executed := n.Executed(); len(executed) != 1 {
			t.Errorf("executed %+v", executed)
		}
	})
	t.Run("accepted and dropped", func(t *testing.T) {
		n.reset()
		n.Fail(fullnode.Fault{On: fullnode.Submit, Times: 1, Effect: fullnode.Drop})
		c, err := submit(t)
		if err != nil {
			t.Fatal(err)
		}
		n.expect(t, c, Transaction{State: StateUnknown})
		if _, err := submit(t); err != nil {
			t.Fatal(err)
		}
		n.expect(t, c, succeeded)
	})
	t.Run("accepted and expired", func(t *testing.T) {
		n.reset()
		n.Hold()
		c, err := submit(t)
		if err != nil {
			t.Fatal(err)
		}
		n.Advance(time.Minute)
		n.Execute()
		got, err := c.Transaction(t.Context(), n.of.Hash)
		if err != nil || got.State != StateUnknown || !got.Ledger.Equal(recordedTime.Add(time.Minute)) {
			t.Errorf("%+v, %v", got, err)
		}
		_, err = submit(t)
		refused(t, err, "TRANSACTION_EXPIRED")
	})
	t.Run("executed with failure", func(t *testing.T) {
		n.reset()
		n.Fail(fullnode.Fault{On: fullnode.Submit, Times: 1, Effect: fullnode.Fail, VMStatus: "Move abort in 0x1::coin: 0x6"})
		c, err := submit(t)
		if err != nil {
			t.Fatal(err)
		}
		n.expect(t, c, Transaction{State: StateExecuted, VMStatus: "Move abort in 0x1::coin: 0x6", GasUsed: 12, Version: 3})
	})
	t.Run("too little gas", func(t *testing.T) {
		n.reset()
		n.SetGas(n.payment.Receiver.String(), 1)
		c, err := submit(t)
		refused(t, err, "INSUFFICIENT_BALANCE_FOR_TRANSACTION_FEE")
		n.expect(t, c, Transaction{State: StateUnknown})
	})
}
