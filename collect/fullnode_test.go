package collect

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/chain"
	"sluice/database/sqlstore"
	"sluice/ledger"
	"sluice/test/fullnode"
	"sluice/test/testenv"
)

// patience limits every wait. It is far above any expected duration.
const patience = time.Minute

// onFullnode is a market on a fullnode that verifies transactions with the chain's own package. Its
// time is the machine's.
type onFullnode struct {
	*market
	*fullnode.Node
}

// newOnFullnode returns a market over an empty store, which is closed when the test ends.
func newOnFullnode(t *testing.T, store *sqlstore.Store) *onFullnode {
	t.Helper()
	testenv.AtEnd(t, store.Close)
	n := fullnode.Start(t, fullnode.Options{})
	return &onFullnode{newMarket(t, store, chain.Options{Nodes: []string{n.URL()}}), n}
}

// onSQLite returns a market on SQLite for a parallel test.
func onSQLite(t *testing.T) *onFullnode {
	t.Helper()
	t.Parallel()
	return newOnFullnode(t, openSQLite(t, testenv.MemoryDir(t)))
}

// onEachEngine runs a test on SQLite and on PostgreSQL.
func onEachEngine(t *testing.T, test func(*testing.T, *onFullnode)) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) { test(t, onSQLite(t)) })
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		store := testenv.Must(sqlstore.OpenPostgres(t.Context(), testenv.Postgres(t), sqlstore.Options{}))(t)
		test(t, newOnFullnode(t, store))
	})
}

// fund opens a channel on the chain and in the store.
func (m *onFullnode) fund(number, deposit uint64) *channel {
	m.t.Helper()
	c := m.open(number, deposit)
	m.Open(fullnode.Channel{
		Sender: c.payer.Address().String(), Receiver: m.receiver.Address().String(), Asset: asset, ID: number,
		Deposit: deposit, Created: fullnode.Time{Time: m.now()}, Expires: fullnode.Time{Time: m.now().Add(24 * time.Hour)},
	})
	return c
}

// await waits until a condition holds.
func (m *market) await(label string, holds func() bool) {
	m.t.Helper()
	tick, end := time.NewTicker(20*time.Millisecond), time.After(patience)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-end:
			m.t.Fatalf("after %v it is not so that %s; reports: %v", patience, label, m.errors())
		}
	}
}

// reported waits until a failure is reported.
func (m *market) reported(text string) {
	m.t.Helper()
	m.await("it is reported that "+text, func() bool { return m.hasReported(text) })
}

// settled waits until a channel has settled all that was accepted.
func (c *channel) settled() {
	c.t.Helper()
	c.await("everything accepted is settled", func() bool {
		state := c.state()
		return state.Settled == int64(c.amount) && state.Submitted == 0
	})
}

// stopped waits until a channel has stopped for a reason that contains this text.
func (c *channel) stopped(reason string) {
	c.t.Helper()
	c.await("the channel has stopped", func() bool { return strings.Contains(c.state().Stopped, reason) })
}

// due reports whether a channel's settlement is due.
func (c *channel) due() bool {
	c.t.Helper()
	list := testenv.Must(c.store.DueSettlements(c.t.Context(), 0, ledger.Settlement{}, 100))(c.t)
	return slices.ContainsFunc(list, func(s ledger.Settlement) bool { return s.Channel == c.id })
}

// paid fails the test unless the chain has paid exactly these amounts over a channel, one in each
// transaction.
func (m *onFullnode) paid(number uint64, want ...uint64) {
	m.t.Helper()
	var got []uint64
	for _, e := range m.Executed() {
		if e.Channel == number {
			got = append(got, e.Paid)
		}
	}
	if !slices.Equal(got, want) {
		m.t.Errorf("the chain has paid %v over channel %d, want %v", got, number, want)
	}
}

// TestFullnodeThatFails pays over several channels at the same time while the fullnode fails in all
// ways. Each payment is collected once.
// Invariant 165.
func TestFullnodeThatFails(t *testing.T) {
	m := onSQLite(t)
	for _, on := range []fullnode.Operation{fullnode.Submit, fullnode.Lookup, fullnode.View} {
		for _, f := range []fullnode.Fault{
			{Effect: fullnode.Skip, Answer: fullnode.Cut}, {Answer: fullnode.Cut}, {Answer: fullnode.Garbage},
			{Effect: fullnode.Skip, Answer: fullnode.WrongStatus, Status: 429, RetryAfter: 1}, {Answer: fullnode.WrongStatus, Status: 503},
			{Delay: 300 * time.Millisecond},
		} {
			f.On, f.Times = on, 1
			m.Fail(f)
		}
	}
	m.Fail(fullnode.Fault{On: fullnode.Submit, Times: 2, Effect: fullnode.Drop})
	var channels []*channel
	for i := range uint64(8) {
		c := m.fund(i+1, 1000)
		c.payNow(10 + i)
		channels = append(channels, c)
	}
	stop := m.run()
	for _, c := range channels {
		c.settled()
	}
	stop()
	for i, c := range channels {
		m.paid(c.number, 10+uint64(i))
	}
	m.audit()
}

// TestFullnodeOfStoppedCollectors ends a collector at each step. A new one continues from the
// durable state.
// Invariant 165.
func TestFullnodeOfStoppedCollectors(t *testing.T) {
	onEachEngine(t, func(t *testing.T, m *onFullnode) {
		c := m.fund(1, 1000)
		var paid []uint64
		for _, step := range fullnode.Interruptions {
			stop := m.run()
			c.payNow(1) // so that the channel was read before
			c.settled()
			before := len(m.Requests(step.Fault.On))
			m.Fail(step.Fault)
			amount := uint64(10 + len(paid))
			c.payNow(amount)
			m.AwaitRequests(step.Fault.On, before+1)
			c.payNow(100) // waits for the submission in flight
			stop()
			m.Heal()
			stop = m.run()
			c.settled()
			stop()
			paid = append(paid, 1, amount, 100)
			if m.paid(c.number, paid...); t.Failed() {
				t.Fatalf("after the end %s: %v", step.Name, m.errors())
			}
		}
		m.audit()
	})
}

// TestFullnodeOfTwoCollectors runs two collectors, as when a leader does not know yet that another
// has taken over.
// Invariant 165.
func TestFullnodeOfTwoCollectors(t *testing.T) {
	onEachEngine(t, func(_ *testing.T, m *onFullnode) {
		m.Fail(fullnode.Fault{On: fullnode.Any, Delay: 50 * time.Millisecond})
		var channels []*channel
		for i := range uint64(8) {
			channels = append(channels, m.fund(i+1, 1000))
		}
		defer m.run()()
		defer m.run()()
		for range 2 {
			for _, c := range channels {
				c.payNow(5)
			}
			for _, c := range channels {
				c.settled()
			}
		}
		for _, c := range channels {
			m.paid(c.number, 5, 5)
		}
		m.audit()
	})
}

// TestFullnodeOfAnExpiredPayment lets a submission expire. That is recorded when the chain's time
// is past its expiry, and its channel sells nothing until a renewal is collected. The chain is
// ahead of the store's clock.
// Invariants 165, 167.
func TestFullnodeOfAnExpiredPayment(t *testing.T) {
	m := onSQLite(t)
	const ahead = 55 * time.Second
	c := m.fund(1, 1000)
	defer m.run()()
	m.Hold()
	c.pay(10, 30*time.Second, 1)
	m.AwaitRequests(fullnode.Lookup, 1)
	testenv.Equal(t, c.submission(), ledger.InFlight, "while it is pending")
	m.Advance(ahead)
	m.Execute()
	c.await("the submission has expired", func() bool { return c.submission() == ledger.Expired })
	m.reported("it was submitted, and expired without being executed")
	if state := c.state(); state.Settled != 0 || !strings.Contains(state.Stopped, "renew it") || state.Expired != 10 {
		t.Errorf("%+v", state)
	}
	c.renew(2*time.Minute, ahead)
	c.settled()
	c.pay(5, 2*time.Minute, 1)
	c.settled()
	m.paid(c.number, 10, 5)
	m.audit()
}

// TestFullnodeOfALatePayment accepts payments that expire before a collector runs. Nothing is
// submitted then; a renewal of one, and the next payment after the other, are collected.
// Invariant 167.
func TestFullnodeOfALatePayment(t *testing.T) {
	m := onSQLite(t)
	const ahead = 50 * time.Second
	renewed, continued := m.fund(1, 1000), m.fund(2, 1000)
	for _, c := range []*channel{renewed, continued} {
		c.pay(10, 40*time.Second, 1)
	}
	m.Advance(ahead)
	defer m.run()()
	for _, c := range []*channel{renewed, continued} {
		m.await("its settlement is no longer due", func() bool { return !c.due() })
		if state := c.state(); state.Stopped != "" || state.Submitted != 0 || state.Settled != 0 {
			t.Errorf("%+v", state)
		}
	}
	m.reported("it expired before it was submitted")
	testenv.Equal(t, len(m.Requests(fullnode.Submit)), 0, "submissions")
	renewed.renew(2*time.Minute, ahead)
	continued.pay(5, 2*time.Minute, 1)
	renewed.settled()
	continued.settled()
	m.paid(1, 10)
	m.paid(2, 15)
	m.audit()
}

// TestFullnodeThatRefuses submits a payment with less maximum gas than the chain's minimum. Its
// channel sells nothing until the payment is collected; other channels sell.
// Invariant 167.
func TestFullnodeThatRefuses(t *testing.T) {
	m := onSQLite(t)
	m.SetCosts(500, 12)
	low, other := m.fund(1, 1000), m.fund(2, 1000)
	low.maxGas = 499
	defer m.run()()
	low.payNow(10)
	low.stopped("MAX_GAS_UNITS_BELOW_MIN_TRANSACTION_GAS_UNITS")
	low.refused("after the refusal")
	other.payNow(10)
	other.settled()
	m.SetCosts(3, 12)
	low.settled()
	low.payNow(5)
	low.settled()
	m.audit()
}

// TestFullnodeThatExecutesWithFailure executes a submission with failure, and one over a channel
// that has too little.
// Invariant 165.
func TestFullnodeThatExecutesWithFailure(t *testing.T) {
	m := onSQLite(t)
	const reason = "Move abort in 0x1::fungible_asset: EFROZEN"
	m.Fail(fullnode.Fault{On: fullnode.Submit, Times: 1, Effect: fullnode.Fail, VMStatus: reason})
	aborted, empty, other := m.fund(1, 1000), m.open(2, 1000), m.fund(3, 1000)
	defer m.run()()
	aborted.payNow(10)
	aborted.stopped(reason)
	empty.payNow(10)
	empty.stopped("ECHANNEL_NOT_FOUND")
	other.payNow(10)
	other.settled()
	failed, err := m.store.FailedSubmissions(t.Context(), 10)
	if err != nil || len(failed) != 2 || !strings.Contains(failed[0].Status, reason) {
		t.Errorf("failed submissions: %+v, %v", failed, err)
	}
	aborted.refused("after the failure")
	m.paid(1, 0)
	m.paid(3, 10)
	m.audit()
}

// TestFullnodeOfAnEmptyAccount lets the receiver run out of gas. The channel stays open, and
// collecting continues when there is gas.
// Invariant 165.
func TestFullnodeOfAnEmptyAccount(t *testing.T) {
	m := onSQLite(t)
	m.SetGas(m.receiver.Address().String(), 1)
	c := m.fund(1, 1000)
	defer m.run()()
	c.payNow(10)
	m.AwaitRequests(fullnode.Submit, 2)
	m.reported("gas")
	if state := c.state(); state.Stopped != "" || state.Submitted != 10 {
		t.Errorf("%+v", state)
	}
	m.SetGas(m.receiver.Address().String(), 1_000_000_000)
	c.settled()
	m.paid(c.number, 10)
}

// TestFullnodeAheadOfTheClock pays with micropayments that are due after half their life, on a
// chain that is half a minute ahead of the store's clock: they are collected before they expire
// there.
// Invariant 165.
func TestFullnodeAheadOfTheClock(t *testing.T) {
	m := onSQLite(t)
	c := m.fund(1, 1000)
	m.Advance(30 * time.Second)
	defer m.run()()
	m.AwaitRequests(fullnode.Head, 1)
	c.pay(10, 34*time.Second, 1000) // due after 17 s by the clock, after 2 s by the chain's time
	c.settled()
	m.paid(c.number, 10)
}
