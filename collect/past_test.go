package collect

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/ledger"
	"sluice/micropay"
	"sluice/test/fullnode"
	"sluice/test/testenv"
)

// onChain returns a channel as it is on the chain.
func (m *onFullnode) onChain(number uint64) fullnode.Channel {
	m.t.Helper()
	for _, c := range m.Channels() {
		if c.ID == number {
			return c
		}
	}
	m.t.Fatalf("there is no channel %d on the chain", number)
	return fullnode.Channel{}
}

// whileDown collects due settlements over channels, ends the collector before it knows the
// outcomes, calls act, and starts a new collector.
func (m *onFullnode) whileDown(channels int, act func()) (stop func()) {
	m.t.Helper()
	m.Fail(fullnode.Fault{On: fullnode.Lookup, Answer: fullnode.Hang})
	end := m.run()
	m.await("everything is executed", func() bool { return len(m.Executed()) == channels })
	end()
	m.Heal()
	act()
	return m.run()
}

// collect submits a payment as the receiver's other instance does.
func (m *onFullnode) collect(p *micropay.Micropayment) {
	m.t.Helper()
	transaction := testenv.Must(p.Collect(m.receiver))(m.t)
	testenv.OK(m.t, m.opt.Chain.Submit(m.t.Context(), transaction))
}

// TestPayersCannotHaltSettling lets many payers deposit exactly the collected amounts, while no
// collector runs and before the fullnode prunes the proofs. Their channels stop, and no further
// ones.
// Invariant 173.
func TestPayersCannotHaltSettling(t *testing.T) {
	for name, past := range map[string]func(*onFullnode){
		"pruned":    func(m *onFullnode) { m.Prune() },
		"forgotten": func(m *onFullnode) { m.Forget() },
	} {
		t.Run(name, func(t *testing.T) {
			onEachEngine(t, func(t *testing.T, m *onFullnode) {
				const attackers = 8
				var channels []*channel
				for i := range uint64(attackers + 1) {
					c := m.fund(i+1, 1000)
					c.payNow(10)
					channels = append(channels, c)
				}
				honest := channels[attackers]
				defer m.whileDown(len(channels), func() {
					for i := range uint64(attackers) {
						m.Deposit(m.onChain(i+1), 10)
					}
					past(m)
				})()
				for _, c := range channels {
					c.settled()
				}
				m.wantHalt("")
				for _, c := range channels[:attackers] {
					if state := c.state(); !strings.Contains(state.Stopped, "compare the channel with the chain") {
						t.Errorf("%+v", state)
					}
				}
				honest.payNow(5)
				honest.settled()
				m.audit()
			})
		})
	}
}

// TestChannelThatWasOpenedAgain ends a channel directly after it was collected, and opens it again
// under its number, where less is withdrawn. The amount withdrawn from the first one is settled.
// Invariant 170.
func TestChannelThatWasOpenedAgain(t *testing.T) {
	for name, past := range map[string]func(*onFullnode){
		"provable": func(*onFullnode) {},
		"pruned":   func(m *onFullnode) { m.Prune() },
	} {
		t.Run(name, func(t *testing.T) {
			onEachEngine(t, func(t *testing.T, m *onFullnode) {
				c := m.fund(1, 1000)
				c.payNow(60)
				defer m.whileDown(1, func() {
					again := m.onChain(1)
					again.Created, again.Deposit, again.Withdrawn, again.NextSequence = fullnode.Time{Time: time.Now().Add(time.Second)}, 500, 50, 2
					m.Reopen(again)
					past(m)
				})()
				c.settled()
				if state := c.state(); !strings.Contains(state.Stopped, "opened again") || state.Elsewhere != 0 {
					t.Errorf("%+v", state)
				}
				m.wantHalt("")
				m.audit()
			})
		})
	}
}

// TestRestoredPayments runs a collector on data from before payments were collected: one is pending
// or in flight, and was collected, or included in a later one that was. It ends settled, and sales
// go on.
// Invariant 170.
func TestRestoredPayments(t *testing.T) {
	for _, later := range []bool{false, true} {
		for _, inFlight := range []bool{false, true} {
			for name, past := range map[string]func(*onFullnode){
				"known": func(*onFullnode) {}, "pruned": func(m *onFullnode) { m.Prune() }, "forgotten": func(m *onFullnode) { m.Forget() },
			} {
				t.Run(fmt.Sprintf("later %v, in flight %v, %s", later, inFlight, name), func(t *testing.T) {
					onEachEngine(t, func(t *testing.T, m *onFullnode) {
						c := m.fund(1, 1000)
						p := c.sign(10, time.Minute)
						testenv.OK(t, c.accept(p, 10, 1))
						collected := []uint64{10}
						s := testenv.Must(New(m.store, m.opt).complete(ledger.Settlement{
							Channel: c.id, Sequence: 1, Amount: 10, Proof: p.Bytes(), Expires: p.Expires(),
						}, 0))(t)
						if inFlight {
							testenv.OK(t, m.store.BeginSubmission(t.Context(), s.Submission))
						}
						if later {
							p, collected = c.sign(15, time.Minute), []uint64{25}
						}
						m.collect(p)
						past(m)
						defer m.run()()
						c.settled()
						if state := c.state(); state.Stopped != "" {
							t.Errorf("%+v", state)
						}
						m.wantHalt("")
						c.payNow(5)
						c.settled()
						m.paid(1, append(collected, 5)...)
						m.audit()
					})
				})
			}
		}
	}
}

// TestCollectedByAnotherInstance lets the receiver's other instance collect a payment, by the same
// transaction, before this one does. It is reported, and does not count as collected here.
// Invariant 170.
func TestCollectedByAnotherInstance(t *testing.T) {
	onEachEngine(t, func(t *testing.T, m *onFullnode) {
		c := m.fund(1, 1000)
		c.payNow(10)
		defer m.run()()
		c.settled()
		p := c.sign(50, time.Minute)
		m.collect(p)
		testenv.OK(t, c.accept(p, 50, 1))
		c.settled()
		m.reported("had been withdrawn before: does another instance collect for the same receiver?")
		if state := c.state(); state.Collected != 10 || state.Elsewhere != 50 {
			t.Errorf("%+v", state)
		}
		m.paid(1, 10, 50)
		m.audit()
	})
}

// TestAmountCollectedByAnotherInstance lets the receiver's other instance collect the same amount
// by another payment, while this one's waits for its execution. The status shows that, and the
// withdrawn amount is settled.
// Invariant 170.
func TestAmountCollectedByAnotherInstance(t *testing.T) {
	onEachEngine(t, func(t *testing.T, m *onFullnode) {
		c := m.fund(1, 1000)
		m.Hold()
		c.payNow(60)
		defer m.run()()
		m.AwaitRequests(fullnode.Lookup, 1)
		other := m.onChain(1)
		other.Withdrawn, other.NextSequence = 60, 6
		m.Open(other)
		m.Execute()
		c.settled()
		m.reported("had been withdrawn before: does another instance collect for the same receiver?")
		if state := c.state(); state.Collected != 0 || state.Elsewhere != 60 {
			t.Errorf("%+v", state)
		}
		m.audit()
	})
}
