package chain

import (
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
