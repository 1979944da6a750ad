package collect

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"sluice/ledger"
	"sluice/test/fullnode"
)

// TestAttacksBesideHonestPayers ends collectors at random steps, while payers deposit the collected
// amount, sign payments that the chain does not take, and end channels, and while the fullnode
// forgets. The books of honest payers end equal to the chain, and nothing halts.
// Invariants 170, 182.
func TestAttacksBesideHonestPayers(t *testing.T) {
	const rounds = 12
	onEachEngine(t, func(t *testing.T, m *onFullnode) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		m.SetCosts(500, 12)
		var honest, depositors []*channel
		for i := range uint64(3) {
			honest = append(honest, m.fund(1+i, 10_000))
			depositors = append(depositors, m.fund(11+i, 10_000))
		}
		refused, reopened := m.fund(21, 1000), m.fund(22, 1000)
		refused.maxGas = 499
		refused.payNow(10)
		reopened.payNow(60)
		for round := range rounds {
			step := fullnode.Interruptions[random.IntN(len(fullnode.Interruptions))]
			before := len(m.Requests(step.Fault.On))
			m.Fail(step.Fault)
			for _, c := range honest {
				c.payNow(5)
			}
			for _, c := range depositors {
				if err := c.accept(c.sign(10, time.Minute), 10, 1); errors.Is(err, ledger.ErrChannelStopped) {
					c.amount -= 10 // its sequence number is not used again
				} else if err != nil {
					t.Fatal(err)
				}
			}
			stop := m.run()
			m.AwaitRequests(step.Fault.On, before+1)
			stop()
			m.Heal()
			for _, c := range depositors {
				m.Deposit(m.onChain(c.number), uint64(10*(1+random.IntN(2))))
			}
			if round == rounds/2 {
				again := m.onChain(reopened.number)
				again.Created, again.Withdrawn, again.NextSequence = fullnode.Time{Time: time.Now().Add(time.Second)}, 0, 1
				m.Reopen(again)
			}
			[]func(){func() {}, m.Prune, m.Forget}[random.IntN(3)]()
		}
		defer m.run()()
		for _, c := range append(honest, depositors...) {
			c.settled()
			state, chain := c.state(), m.onChain(c.number)
			if state.Settled != int64(chain.Withdrawn) || state.Collected != state.Settled || state.Elsewhere != 0 {
				t.Errorf("channel %d: the chain has paid %d: %+v", c.number, chain.Withdrawn, state)
			}
		}
		for _, c := range honest {
			if state := c.state(); state.Stopped != "" {
				t.Errorf("channel %d has stopped: %s", c.number, state.Stopped)
			}
		}
		for _, e := range m.Executed() {
			if !e.Success && e.Channel < 20 {
				t.Errorf("gas was spent in vain: %+v", e)
			}
		}
		m.wantHalt("")
		m.audit()
	})
}
