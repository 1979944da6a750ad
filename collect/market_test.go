package collect

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/chain"
	"sluice/database/sqlstore"
	"sluice/internal/task"
	"sluice/ledger"
	"sluice/micropay"
	"sluice/test/fullnode"
	"sluice/test/testenv"
)

const asset = "0x1b18363a9f1fe5e6ebf247daba5cc1c18052bb232efdc4c50f556053922d98e1"

// market is a store with payments that are collected on a chain.
type market struct {
	t        testing.TB
	store    *sqlstore.Store
	over     Store   // of collectors that run later; nil: store
	opt      Options // of collectors that run later
	receiver *micropay.Signer
	now      func() time.Time // the payers' and the chain's clock

	last    *Collector // the one that was run last
	mu      sync.Mutex
	reports []error
}

// newMarket returns a market over an empty store.
func newMarket(t testing.TB, store *sqlstore.Store, client chain.Options) *market {
	t.Helper()
	m := &market{t: t, store: store, receiver: signer(t, 1<<32), now: time.Now}
	m.opt = Options{Chain: newClient(t, client), Receiver: m.receiver}
	return m
}

// newClient returns a client of the chain on which the market's payments are made.
func newClient(t testing.TB, opt chain.Options) *chain.Client {
	t.Helper()
	opt.ChainID, opt.Module, opt.Timeout = fullnode.DefaultChainID, address(t, fullnode.DefaultModule), 5*time.Second
	return testenv.Must(chain.New(opt))(t)
}

func openSQLite(t testing.TB, dir string) *sqlstore.Store {
	t.Helper()
	return testenv.Must(sqlstore.OpenSQLite(filepath.Join(dir, "meta.db"), sqlstore.Options{Now: time.Now}))(t)
}

func address(t testing.TB, text string) micropay.Address {
	t.Helper()
	return testenv.Must(micropay.ParseAddress(text))(t)
}

// signer returns the signer with a number.
func signer(t testing.TB, number uint64) *micropay.Signer {
	t.Helper()
	secret := binary.BigEndian.AppendUint64(bytes.Repeat([]byte{7}, 24), number)
	key := testenv.Must(micropay.NewPrivateKey(micropay.KeyEd25519, secret))(t)
	return testenv.Must(micropay.NewSigner(micropay.SchemeEd25519, key))(t)
}

// channel is an open channel of its own payer.
type channel struct {
	*market
	id       string
	number   uint64
	payer    *micropay.Signer
	sequence uint64
	amount   uint64
	maxGas   uint64 // of its payments; 0: the public client's
}

// open opens the channel with a number in the store.
func (m *market) open(number, deposit uint64) *channel {
	m.t.Helper()
	c := &channel{market: m, id: fmt.Sprint("channel", number), number: number, payer: signer(m.t, number)}
	_, err := m.store.OpenChannel(m.t.Context(), ledger.Channel{
		ID: c.id, Sender: c.payer.Address().String(), Receiver: m.receiver.Address().String(), Asset: asset,
		PaymentChannelID: int64(number), Deposit: int64(deposit), Expires: m.now().Add(24 * time.Hour), ChainTime: m.now(),
	}, nil)
	testenv.OK(m.t, err)
	return c
}

// sign signs the payment that adds more to the amount.
func (c *channel) sign(more uint64, life time.Duration) *micropay.Micropayment {
	c.t.Helper()
	c.sequence++
	c.amount += more
	return testenv.Must(c.payer.Sign(micropay.Payment{
		Receiver: c.receiver.Address(), Asset: address(c.t, asset), ModuleAddress: address(c.t, fullnode.DefaultModule), ChainID: fullnode.DefaultChainID,
		AccountSequence: micropay.NoAccountSequence, MaxGas: cmp.Or(c.maxGas, 200_000), GasPrice: 100, Nonce: c.sequence,
		PaymentChannelID: c.number, Sequence: c.sequence, Amount: c.amount, Expiration: uint64(c.now().Add(life).Unix()),
	}))(c.t)
}

// pay accepts a payment of more units that lives for a time and is due when settleAt units wait.
func (c *channel) pay(more uint64, life time.Duration, settleAt int64) {
	c.t.Helper()
	testenv.OK(c.t, c.accept(c.sign(more, life), more, settleAt))
}

// payNow accepts a payment that is due now.
func (c *channel) payNow(more uint64) { c.t.Helper(); c.pay(more, time.Minute, 1) }

// refused fails the test unless the channel has stopped. It returns why.
func (c *channel) refused(when string) (reason string) {
	c.t.Helper()
	err := c.accept(c.sign(0, time.Minute), 1, 1) // the amount is compared after the channel's state
	stopped, ok := errors.AsType[*ledger.StoppedError](err)
	if !ok {
		c.t.Fatalf("a payment %s: %v, want %v", when, err, ledger.ErrChannelStopped)
	}
	return stopped.Reason
}

func (c *channel) accept(m *micropay.Micropayment, more uint64, settleAt int64) error {
	_, err := c.store.PayRead(c.t.Context(), ledger.ReadPurchase{Offer: payment(m, settleAt), Price: 1, Count: int64(more), Charge: rand.Text()})
	return err
}

func payment(m *micropay.Micropayment, settleAt int64) ledger.Offer {
	return ledger.Offer{Payment: ledger.Payment{
		Sender: m.Sender.String(), Receiver: m.Receiver.String(), Asset: m.Asset.String(), PaymentChannelID: int64(m.PaymentChannelID),
		Sequence: int64(m.Sequence), Amount: int64(m.Amount), Proof: m.Bytes(), Expires: m.Expires(),
	}, Policy: ledger.Policy{UnsettledLimit: 1_000_000, SettleAt: settleAt}}
}

// renew replaces the newest payment by one that lives for a time and is due now. The chain is ahead
// of the clock by as much.
func (c *channel) renew(life, ahead time.Duration) {
	c.t.Helper()
	p := payment(c.sign(0, life), 1)
	p.Ahead = ahead
	testenv.OK(c.t, testenv.Error(c.store.Renew(c.t.Context(), p)))
}

// state returns the channel in the store.
func (c *channel) state() ledger.Channel {
	c.t.Helper()
	return testenv.Must(c.store.Channel(c.t.Context(), c.id))(c.t)
}

// submission returns the state of the channel's newest submission.
func (c *channel) submission() ledger.SubmissionState {
	c.t.Helper()
	return testenv.Must(c.store.Submission(c.t.Context(), c.id))(c.t).State
}

// run runs a collector until the returned function is called, which waits for its end.
func (m *market) run() (stop func()) {
	ctx, cancel := context.WithCancel(m.t.Context())
	ended := make(chan struct{})
	store := m.over
	if store == nil {
		store = m.store
	}
	collector := New(store, m.opt)
	m.last = collector
	go func() {
		defer close(ended)
		collector.Run(ctx, func(r task.Run) {
			m.mu.Lock()
			defer m.mu.Unlock()
			if r.Err != nil {
				m.reports = append(m.reports, r.Err)
			}
		})
	}()
	return func() { cancel(); <-ended }
}

// wantHalt fails the test unless settling has halted for a reason that contains this text, or, if
// it is empty, has not halted.
func (m *market) wantHalt(reason string) {
	m.t.Helper()
	halt, err := m.store.Halted(m.t.Context())
	if err != nil || (halt == "") != (reason == "") || !strings.Contains(halt, reason) {
		m.t.Errorf("halted: %q, %v, want %q", halt, err, reason)
	}
}

// audit fails the test if the store is inconsistent.
func (m *market) audit() {
	m.t.Helper()
	faults, err := m.store.Audit(m.t.Context())
	if err != nil || len(faults) > 0 {
		m.t.Errorf("audit: %v, %v", faults, err)
	}
}

// errors returns the reported errors.
func (m *market) errors() []error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.reports)
}

func (m *market) hasReported(text string) bool {
	return slices.ContainsFunc(m.errors(), func(err error) bool { return strings.Contains(err.Error(), text) })
}
