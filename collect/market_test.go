package collect

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"sluice/chain"
	"sluice/database/sqlstore"
	"sluice/internal/fullnode"
	"sluice/internal/task"
	"sluice/internal/testenv"
	"sluice/ledger"
	"sluice/micropay"
)

const asset = "0x1b18363a9f1fe5e6ebf247daba5cc1c18052bb232efdc4c50f556053922d98e1"

// market is a store with payments that are collected on a chain.
type market struct {
	t        testing.TB
	store    *sqlstore.Store
	chain    *chain.Client
	over     Store // of collectors that run later; nil: store
	receiver *micropay.Signer
	now      func() time.Time // the payers' and the chain's clock

	mu      sync.Mutex
	reports []error
}

func newMarket(t testing.TB, opt chain.Options) *market {
	t.Helper()
	store, err := sqlstore.OpenSQLite(filepath.Join(testenv.MemoryDir(t), "meta.db"), sqlstore.Options{Now: time.Now})
	testenv.OK(t, err)
	return newMarketOver(t, store, opt)
}

// newMarketOver returns a market over an empty store, which its close closes.
func newMarketOver(t testing.TB, store *sqlstore.Store, opt chain.Options) *market {
	t.Helper()
	m := &market{t: t, store: store, receiver: signer(t, 1<<32), now: time.Now}
	var err error
	opt.ChainID, opt.Module = fullnode.DefaultChainID, address(t, fullnode.DefaultModule)
	if m.chain, err = chain.New(opt); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *market) close() {
	if err := m.store.Close(); err != nil {
		m.t.Error(err)
	}
}

func address(t testing.TB, text string) micropay.Address {
	t.Helper()
	a, err := micropay.ParseAddress(text)
	testenv.OK(t, err)
	return a
}

// signer returns the signer with a number.
func signer(t testing.TB, number uint64) *micropay.Signer {
	t.Helper()
	secret := binary.BigEndian.AppendUint64(bytes.Repeat([]byte{7}, 24), number)
	key, err := micropay.NewPrivateKey(micropay.KeyEd25519, secret)
	testenv.OK(t, err)
	s, err := micropay.NewSigner(micropay.SchemeEd25519, key)
	testenv.OK(t, err)
	return s
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
	m, err := c.payer.Sign(micropay.Payment{
		Receiver: c.receiver.Address(), Asset: address(c.t, asset), ModuleAddress: address(c.t, fullnode.DefaultModule), ChainID: fullnode.DefaultChainID,
		AccountSequence: micropay.NoAccountSequence, MaxGas: cmp.Or(c.maxGas, 200_000), GasPrice: 100, Nonce: c.sequence,
		PaymentChannelID: c.number, Sequence: c.sequence, Amount: c.amount, Expiration: uint64(c.now().Add(life).Unix()),
	})
	testenv.OK(c.t, err)
	return m
}

// pay accepts a payment of more units that lives for a time and is due when settleAt units wait.
func (c *channel) pay(more uint64, life time.Duration, settleAt int64) {
	c.t.Helper()
	testenv.OK(c.t, c.accept(c.sign(more, life), more, settleAt))
}

// payNow accepts a payment that is due now.
func (c *channel) payNow(more uint64) { c.t.Helper(); c.pay(more, time.Minute, 1) }

func (c *channel) accept(m *micropay.Micropayment, more uint64, settleAt int64) error {
	_, err := c.store.PayRead(c.t.Context(), ledger.ReadPurchase{Payment: payment(m, settleAt), Price: 1, Count: int64(more), Charge: rand.Text()})
	return err
}

func payment(m *micropay.Micropayment, settleAt int64) ledger.Payment {
	return ledger.Payment{
		Sender: m.Sender.String(), Receiver: m.Receiver.String(), Asset: m.Asset.String(), PaymentChannelID: int64(m.PaymentChannelID),
		Sequence: int64(m.Sequence), Amount: int64(m.Amount), Proof: m.Bytes(), Expires: m.Expires(), UnsettledLimit: 1_000_000, SettleAt: settleAt,
	}
}

// renew replaces the newest payment by one that lives for a time and is due now. The chain is ahead
// of the clock by as much.
func (c *channel) renew(life, ahead time.Duration) {
	c.t.Helper()
	p := payment(c.sign(0, life), 1)
	p.Ahead = ahead
	if _, err := c.store.Renew(c.t.Context(), p); err != nil {
		c.t.Fatal(err)
	}
}

// state returns the channel in the store.
func (c *channel) state() ledger.Channel {
	c.t.Helper()
	state, err := c.store.Channel(c.t.Context(), c.id)
	testenv.OK(c.t, err)
	return state
}

// run runs a collector until the returned function is called, which waits for its end.
func (m *market) run() (stop func()) {
	ctx, cancel := context.WithCancel(m.t.Context())
	ended := make(chan struct{})
	store := m.over
	if store == nil {
		store = m.store
	}
	go func() {
		defer close(ended)
		New(store, Options{Chain: m.chain, Receiver: m.receiver}).Run(ctx, func(r task.Run) {
			m.mu.Lock()
			defer m.mu.Unlock()
			if r.Err != nil {
				m.reports = append(m.reports, r.Err)
			}
		})
	}()
	return func() { cancel(); <-ended }
}

// audit fails the test if the store is inconsistent.
func (m *market) audit() {
	m.t.Helper()
	faults, err := m.store.Audit(m.t.Context())
	if err != nil || len(faults) > 0 {
		m.t.Errorf("audit: %v, %v", faults, err)
	}
}

// errors returns what was reported.
func (m *market) errors() []error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.reports)
}
