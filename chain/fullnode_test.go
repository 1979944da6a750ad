package chain

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/micropay"
	"sluice/test/fullnode"
	"sluice/test/testenv"
)

// recordedTime is when the recorded submissions were made. They expire a minute later.
var recordedTime = time.Unix(1_760_000_000, 0).UTC()

// onChain is a fullnode for tests, with the first recorded submission's channel.
type onChain struct {
	*fullnode.Node
	of       *micropay.Transaction
	payment  *micropay.Micropayment
	receiver *micropay.Signer
}

func startFullnode(t *testing.T) *onChain {
	t.Helper()
	m := testenv.Must(micropay.ParseBase64(readRecorded(t).Vectors[0].Micropayment))(t)
	key := testenv.Must(micropay.ParsePrivateKey(readRecorded(t).Vectors[0].ReceiverKey))(t)
	receiver := testenv.Must(micropay.NewSignerOf(m.Receiver, key))(t)
	n := &onChain{fullnode.Start(t, fullnode.Options{}), completed(t), m, receiver}
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

// name names the channel.
func (n *onChain) name() ChannelName {
	return ChannelName{Asset: n.payment.Asset, PaymentChannelID: n.payment.PaymentChannelID}
}

// channel returns the channel as the fullnode states it.
func (n *onChain) channel(t *testing.T, c *Client) Channel {
	t.Helper()
	channels, err := c.Channels(t.Context(), n.payment.Sender, n.payment.Receiver, n.name())
	if err != nil || len(channels.ByName) != 1 || !channels.At.Equal(recordedTime) {
		t.Fatalf("%+v, %v", channels, err)
	}
	return channels.ByName[n.name()]
}

// expect fails the test unless the fullnode states this of the transaction, with its time.
func (n *onChain) expect(t *testing.T, c *Client, want Transaction) {
	t.Helper()
	want.At = recordedTime
	testenv.Equal(t, testenv.Must(c.Transaction(t.Context(), n.of.Hash))(t), want, "the transaction")
}

var succeeded = Transaction{State: StateExecuted, Success: true, VMStatus: "Executed successfully", GasUsed: 12, GasPrice: 100, Version: 3}

// TestCollectOnAFullnode asks a fullnode that verifies transactions with the chain's own package,
// before, between and after the submission and the execution of one.
func TestCollectOnAFullnode(t *testing.T) {
	n := startFullnode(t)
	c := n.client(t)
	head := Head{ChainID: fullnode.DefaultChainID, Version: 2, Time: recordedTime}
	testenv.Equal(t, testenv.Must(c.Head(t.Context()))(t), head, "the head")
	testenv.Equal(t, testenv.Must(c.GasPrices(t.Context()))(t), (GasPrices{100, 100, 150}), "the gas prices")
	m := n.payment
	before := Channel{
		ChannelName: n.name(), Balance: m.Amount + 5,
		Created: recordedTime, Expires: recordedTime.Add(time.Hour),
	}
	testenv.Equal(t, n.channel(t, c), before, "the channel")
	n.expect(t, c, Transaction{State: StateUnknown})
	n.Hold()
	for range 2 {
		testenv.OK(t, c.Submit(t.Context(), n.of))
	}
	n.expect(t, c, Transaction{State: StatePending})
	n.Execute()
	n.expect(t, c, succeeded)
	after := before
	after.Balance, after.Withdrawn, after.NextSequence = 5, m.Amount, m.Sequence+1
	testenv.Equal(t, n.channel(t, c), after, "the channel")
	for version, want := range map[uint64]Channel{1: {}, 2: before, 3: after} {
		if got, err := c.ChannelsAt(t.Context(), version, m.Sender, m.Receiver, n.name()); err != nil || got.ByName[n.name()] != want {
			t.Errorf("at version %d the channels are %+v, %v, want %+v", version, got.ByName, err, want)
		}
	}
	refusal, ok := errors.AsType[*Error](testenv.Error(c.ChannelsAt(t.Context(), 4, m.Sender, m.Receiver)))
	if !ok || refusal.Status != http.StatusNotFound {
		t.Errorf("at a version of the future: %v", refusal)
	}
	if executed := n.Executed(); len(executed) != 1 || executed[0].Paid != m.Amount {
		t.Errorf("executed %+v", executed)
	}
	for _, r := range n.Requests(fullnode.Submit) {
		testenv.Equal(t, r.Authorization, "Bearer canary", "the authorization")
	}
}

// calls returns a call of each operation.
func (n *onChain) calls() map[fullnode.Operation]func(*testing.T, *Client) error {
	return map[fullnode.Operation]func(*testing.T, *Client) error{
		fullnode.Head:   func(t *testing.T, c *Client) error { return testenv.Error(c.Head(t.Context())) },
		fullnode.Gas:    func(t *testing.T, c *Client) error { return testenv.Error(c.GasPrices(t.Context())) },
		fullnode.Lookup: func(t *testing.T, c *Client) error { return testenv.Error(c.Transaction(t.Context(), n.of.Hash)) },
		fullnode.Submit: func(t *testing.T, c *Client) error { return c.Submit(t.Context(), n.of) },
		fullnode.Account: func(t *testing.T, c *Client) error {
			return testenv.Error(c.AccountSequence(t.Context(), n.payment.Sender))
		},
		fullnode.Simulate: func(t *testing.T, c *Client) error {
			body, err := n.payment.Simulation(n.receiver)
			if err == nil {
				_, err = c.Simulate(t.Context(), body)
			}
			return err
		},
		fullnode.View: func(t *testing.T, c *Client) error {
			return testenv.Error(c.Channels(t.Context(), n.payment.Sender, n.payment.Receiver))
		},
	}
}

// TestCallsOutlastEachFault makes each call while the fullnode fails in each way, until it is asked
// again.
func TestCallsOutlastEachFault(t *testing.T) {
	n := startFullnode(t)
	calls := n.calls()
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

// TestOutcomesOfSubmissions shows how a client learns the outcome if a transaction was not simply
// accepted and executed.
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
		// The client asks again, and the fullnode refuses the executed transaction.
		refused(t, err, "NONCE_ALREADY_USED")
		n.expect(t, c, succeeded)
		if executed := n.Executed(); len(executed) != 1 {
			t.Errorf("executed %+v", executed)
		}
	})
	t.Run("accepted and dropped", func(t *testing.T) {
		n.reset()
		n.Fail(fullnode.Fault{On: fullnode.Submit, Times: 1, Effect: fullnode.Drop})
		c := testenv.Must(submit(t))(t)
		n.expect(t, c, Transaction{State: StateUnknown})
		testenv.OK(t, testenv.Error(submit(t)))
		n.expect(t, c, succeeded)
	})
	t.Run("accepted and expired", func(t *testing.T) {
		n.reset()
		n.Hold()
		c := testenv.Must(submit(t))(t)
		n.Advance(time.Minute)
		n.Execute()
		got, err := c.Transaction(t.Context(), n.of.Hash)
		if err != nil || got.State != StateUnknown || !got.At.Equal(recordedTime.Add(time.Minute)) {
			t.Errorf("%+v, %v", got, err)
		}
		_, err = submit(t)
		refused(t, err, "TRANSACTION_EXPIRED")
	})
}

// pays returns the payer and the receiver for payments over a fullnode's channel, and the first
// payment's terms.
func (n *onChain) pays(t *testing.T) (payer, receiver *micropay.Signer, p micropay.Payment) {
	t.Helper()
	signer := func(n byte) *micropay.Signer {
		key := testenv.Must(micropay.NewPrivateKey(micropay.KeyEd25519, bytes.Repeat([]byte{n}, 32)))(t)
		s := testenv.Must(micropay.NewSigner(micropay.SchemeEd25519, key))(t)
		return s
	}
	payer, receiver = signer(1), signer(2)
	n.Open(fullnode.Channel{
		Sender: payer.Address().String(), Receiver: receiver.Address().String(), Asset: n.payment.Asset.String(), ID: 9,
		Deposit: 100, Created: fullnode.Time{Time: recordedTime}, Expires: fullnode.Time{Time: recordedTime.Add(time.Hour)},
	})
	return payer, receiver, micropay.Payment{
		Receiver: receiver.Address(), Asset: n.payment.Asset, Amount: 60, PaymentChannelID: 9, Sequence: 1, ModuleAddress: parseAddress(t, fullnode.DefaultModule),
		ChainID: fullnode.DefaultChainID, Expiration: uint64(recordedTime.Unix()) + 60, Nonce: 5, MaxGas: 1000, GasPrice: 100,
	}
}

// TestSimulationForetellsTheSubmission simulates and then submits payments that the chain executes,
// executes with failure, or refuses. A simulation has no effect.
// Invariant 175.
func TestSimulationForetellsTheSubmission(t *testing.T) {
	n := startFullnode(t)
	const done = "Executed successfully"
	plain := func(sequence uint64) func(*micropay.Payment) {
		return func(p *micropay.Payment) { p.Form, p.Nonce, p.AccountSequence = micropay.FormPlain, 0, sequence }
	}
	for name, test := range map[string]struct {
		state  func(payer, receiver string)
		change func(*micropay.Payment)
		want   string // vm_status
		gas    uint64
	}{
		"valid":                    {want: done, gas: 12},
		"least gas":                {change: func(p *micropay.Payment) { p.MaxGas = 12 }, want: done, gas: 12},
		"too little gas":           {change: func(p *micropay.Payment) { p.MaxGas = 11 }, want: "Out of gas", gas: 11},
		"below the chain's gas":    {change: func(p *micropay.Payment) { p.MaxGas = 2 }, want: "MAX_GAS_UNITS_BELOW_MIN_TRANSACTION_GAS_UNITS"},
		"more gas than allowed":    {change: func(p *micropay.Payment) { p.MaxGas = 2_000_001 }, want: "MAX_GAS_UNITS_EXCEEDS_MAX_GAS_UNITS_BOUND"},
		"other costs":              {state: func(string, string) { n.SetCosts(500, 700) }, want: done, gas: 700},
		"too little for the costs": {state: func(string, string) { n.SetCosts(500, 700) }, change: func(p *micropay.Payment) { p.MaxGas = 600 }, want: "Out of gas", gas: 600},
		"below the costs":          {state: func(string, string) { n.SetCosts(500, 700) }, change: func(p *micropay.Payment) { p.MaxGas = 499 }, want: "MAX_GAS_UNITS_BELOW_MIN_TRANSACTION_GAS_UNITS"},
		"low gas price":            {change: func(p *micropay.Payment) { p.GasPrice = 99 }, want: "GAS_UNIT_PRICE_BELOW_MIN_BOUND"},
		"high gas price":           {change: func(p *micropay.Payment) { p.GasPrice = 10_000_000_001 }, want: "GAS_UNIT_PRICE_ABOVE_MAX_BOUND"},
		"plain":                    {change: plain(0), want: done, gas: 12},
		"plain and too old":        {state: func(payer, _ string) { n.SetAccountSequence(payer, 1) }, change: plain(0), want: "SEQUENCE_NUMBER_TOO_OLD"},
		"sequence too old": {state: func(payer, _ string) { n.SetAccountSequence(payer, 8) }, want: "SEQUENCE_NUMBER_TOO_OLD",
			change: func(p *micropay.Payment) { p.Form, p.Nonce, p.AccountSequence = micropay.FormSequence, 0, 7 }},
		"plain and too new":  {change: plain(1), want: "SEQUENCE_NUMBER_TOO_NEW"},
		"rotated key":        {state: func(payer, receiver string) { n.RotateKey(payer, receiver) }, want: "INVALID_AUTH_KEY"},
		"receiver's rotated": {state: func(payer, receiver string) { n.RotateKey(receiver, payer) }, want: "INVALID_AUTH_KEY"},
		"receiver is poor":   {state: func(_, receiver string) { n.SetGas(receiver, 99_999) }, want: "INSUFFICIENT_BALANCE_FOR_TRANSACTION_FEE"},
		"expired":            {state: func(string, string) { n.Advance(time.Minute) }, want: "TRANSACTION_EXPIRED"},
		"expires too late":   {change: func(p *micropay.Payment) { p.Expiration += 41 }, want: "TRANSACTION_EXPIRATION_TOO_FAR_IN_FUTURE"},
		"other chain":        {change: func(p *micropay.Payment) { p.ChainID++ }, want: "BAD_CHAIN_ID"},
		"above the deposit":  {change: func(p *micropay.Payment) { p.Amount = 101 }, want: "EINSUFFICIENT_BALANCE", gas: 12},
		"no channel":         {change: func(p *micropay.Payment) { p.PaymentChannelID++ }, want: "ECHANNEL_NOT_FOUND", gas: 12},
		"other module":       {change: func(p *micropay.Payment) { p.ModuleAddress[0]++ }, want: "Linker error", gas: 12},
		"failure": {state: func(string, string) {
			n.Fail(fullnode.Fault{Effect: fullnode.Fail, VMStatus: "Move abort in 0x1::coin"})
		}, want: "Move abort in 0x1::coin", gas: 12},
		"above other deposit": {state: func(string, string) { n.Deposit(n.Channels()[1], 1) }, change: func(p *micropay.Payment) { p.Amount = 101 }, want: done, gas: 12},
	} {
		t.Run(name, func(t *testing.T) {
			n.reset()
			payer, receiver, p := n.pays(t)
			n.SetGas(receiver.Address().String(), 100_000_000_000_000_000)
			if test.state != nil {
				test.state(payer.Address().String(), receiver.Address().String())
			}
			if test.change != nil {
				test.change(&p)
			}
			m := testenv.Must(payer.Sign(p))(t)
			body := testenv.Must(m.Simulation(receiver))(t)
			c, before, coins := n.client(t), n.Channels(), n.GasLeft(receiver.Address().String())
			for range 2 {
				s, err := c.Simulate(t.Context(), body)
				if err != nil || s.Success != (test.want == done) || !strings.Contains(s.VMStatus, test.want) || s.GasUsed != test.gas || s.At.Before(recordedTime) {
					t.Errorf("simulated %+v, %v, want %q with %d units of gas", s, err, test.want, test.gas)
				}
			}
			if after := n.Channels(); !slices.Equal(after, before) || len(n.Executed()) > 0 || n.GasLeft(receiver.Address().String()) != coins {
				t.Errorf("after the simulation the channels are %+v\nwant %+v", after, before)
			}

			of := testenv.Must(m.Collect(receiver))(t)
			err := c.Submit(t.Context(), of)
			if test.gas == 0 {
				if refusal, ok := errors.AsType[*Error](err); test.want != "SEQUENCE_NUMBER_TOO_NEW" && (!ok || !strings.Contains(refusal.Message, test.want)) {
					t.Errorf("submitted: %v, want %s", err, test.want)
				}
				return
			}
			testenv.OK(t, err)
			got, err := c.Transaction(t.Context(), of.Hash)
			if err != nil || got.State != StateExecuted || got.Success != (test.want == done) || !strings.Contains(got.VMStatus, test.want) || got.GasUsed != test.gas {
				t.Errorf("executed %+v, %v, want %q with %d units of gas", got, err, test.want, test.gas)
			}
			testenv.Equal(t, n.GasLeft(receiver.Address().String()), coins-test.gas*p.GasPrice, "the receiver's coins left of %d", coins)
		})
	}
	t.Run("a settlement", func(t *testing.T) {
		n.reset()
		_, err := n.client(t).Simulate(t.Context(), n.of.Body)
		if refusal, ok := errors.AsType[*Error](err); !ok || refusal.Code != "invalid_input" || len(n.Executed()) > 0 {
			t.Errorf("error %v, executed %+v", err, n.Executed())
		}
	})
}

// TestAccountsOfAFullnode asks for the sequence numbers of accounts before and after they send
// transactions.
func TestAccountsOfAFullnode(t *testing.T) {
	n := startFullnode(t)
	c := n.client(t)
	expect := func(account micropay.Address, want uint64) {
		t.Helper()
		if got, err := c.AccountSequence(t.Context(), account); got != want || err != nil {
			t.Errorf("the sequence number is %d, %v, want %d", got, err, want)
		}
	}
	expect(micropay.Address{1}, 0)
	if asked := n.Requests(fullnode.Account); len(asked) != 1 {
		t.Errorf("%d requests for an account that does not exist", len(asked))
	}
	payer, receiver, p := n.pays(t)
	expect(payer.Address(), 0)
	n.SetAccountSequence(payer.Address().String(), 3)
	expect(payer.Address(), 3)
	p.Form, p.Nonce, p.AccountSequence = micropay.FormPlain, 0, 3
	m := testenv.Must(payer.Sign(p))(t)
	of := testenv.Must(m.Collect(receiver))(t)
	testenv.OK(t, c.Submit(t.Context(), of))
	expect(payer.Address(), 4)
	expect(receiver.Address(), 0)
}

// TestFullnodeThatLies asks a fullnode that states a wrong time, alone and beside an honest one.
// Invariant 171.
func TestFullnodeThatLies(t *testing.T) {
	n := startFullnode(t)
	honest := n.Beside()
	n.SetGasPrices(fullnode.GasPrices{Lowest: 1, Usual: 2, Highest: 3})
	honest.SetGasPrices(fullnode.GasPrices{Lowest: 100, Usual: 200, Highest: 300})
	n.Lie(24 * time.Hour)
	client := func(urls ...string) *Client {
		return newClient(t, Options{
			ChainID: fullnode.DefaultChainID, Module: parseAddress(t, fullnode.DefaultModule), Nodes: urls, Rounds: 1,
			Now: func() time.Time { return recordedTime },
		})
	}
	alone := client(n.URL())
	for operation, call := range n.calls() {
		if err := call(t, alone); !errors.Is(err, ErrUnavailable) || !errors.Is(err, ErrClock) {
			t.Errorf("%s: error %v", operation, err)
		}
	}
	both := client(n.URL(), honest.URL())
	for operation, call := range n.calls() {
		// It was submitted before.
		if err := call(t, both); err != nil && operation != fullnode.Submit && operation != fullnode.Simulate {
			t.Errorf("%s: error %v", operation, err)
		}
	}
	testenv.Equal(t, testenv.Must(both.GasPrices(t.Context()))(t), (GasPrices{100, 200, 300}), "the gas prices")
	if ahead, known := both.Ahead(); ahead != 0 || !known {
		t.Errorf("the chain is ahead by %v, %v", ahead, known)
	}
	n.Lie(-10 * time.Second)
	testenv.Equal(t, testenv.Must(alone.GasPrices(t.Context()))(t).Usual, 2, "the usual gas price")
	if ahead, _ := alone.Ahead(); ahead != -10*time.Second {
		t.Errorf("the chain is ahead by %v", ahead)
	}
}

// TestFullnodeIsKilled kills a fullnode that has accepted a transaction and has not executed it.
// The chain's other fullnode serves, until the first one does again.
func TestFullnodeIsKilled(t *testing.T) {
	n := startFullnode(t)
	other := n.Beside()
	opt := Options{ChainID: fullnode.DefaultChainID, Module: parseAddress(t, fullnode.DefaultModule), Nodes: []string{n.URL(), other.URL()}, Rounds: 1}
	both := newClient(t, opt)
	opt.Nodes = opt.Nodes[:1]
	alone := newClient(t, opt)
	n.Hold()
	testenv.OK(t, both.Submit(t.Context(), n.of))
	n.expect(t, both, Transaction{State: StatePending})
	n.Kill()
	for operation, call := range n.calls() {
		testenv.Is(t, call(t, alone), ErrUnavailable, "%s", operation)
	}
	n.expect(t, both, Transaction{State: StateUnknown})
	n.Execute()
	testenv.OK(t, both.Submit(t.Context(), n.of))
	n.expect(t, both, succeeded)
	n.Restart()
	n.expect(t, alone, succeeded)
	if executed := n.Executed(); len(executed) != 1 {
		t.Errorf("executed %+v", executed)
	}
}

// TestFullnodeThatForgets collects a payment and then lets the fullnode forget: the transaction,
// and all versions from before the channel got a deposit, was extended, was ended, and was opened
// again under its number.
func TestFullnodeThatForgets(t *testing.T) {
	n := startFullnode(t)
	c := n.client(t)
	testenv.OK(t, c.Submit(t.Context(), n.of))
	n.expect(t, c, succeeded)
	n.Forget()
	n.expect(t, c, Transaction{State: StateUnknown})
	if err := c.Submit(t.Context(), n.of); err == nil || len(n.Executed()) != 1 {
		t.Errorf("submitted again: %v, executed %+v", err, n.Executed())
	}
	m := n.payment
	n.Deposit(n.Channels()[0], 7)
	n.Extend(n.Channels()[0], recordedTime.Add(2*time.Hour))
	want := Channel{
		ChannelName: n.name(), Balance: 12, Withdrawn: m.Amount, NextSequence: m.Sequence + 1,
		Created: recordedTime, Expires: recordedTime.Add(2 * time.Hour),
	}
	testenv.Equal(t, n.channel(t, c), want, "the channel")
	if got, err := c.ChannelsAt(t.Context(), succeeded.Version, m.Sender, m.Receiver, n.name()); err != nil || got.ByName[n.name()].Balance != 5 {
		t.Errorf("after the payment the channels are %+v, %v", got, err)
	}
	n.Prune()
	refusal, _ := errors.AsType[*Error](testenv.Error(c.ChannelsAt(t.Context(), succeeded.Version, m.Sender, m.Receiver)))
	if refusal == nil || refusal.Status != http.StatusGone || refusal.Code != "version_pruned" {
		t.Errorf("at a version that is pruned: %v", refusal)
	}
	again := n.Channels()[0]
	again.Withdrawn, again.NextSequence, again.Deposit, again.Created = 0, 0, 3, fullnode.Time{Time: recordedTime.Add(time.Minute)}
	n.Reopen(again)
	want.Balance, want.Withdrawn, want.NextSequence, want.Created = 3, 0, 0, recordedTime.Add(time.Minute)
	testenv.Equal(t, n.channel(t, c), want, "the channel")
}
