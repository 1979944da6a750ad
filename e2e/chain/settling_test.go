package chain

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/micropay"
	"sluice/test/fullnode"
)

// settleNow returns options of a server on the chain for which every accepted payment is due at
// once.
func settleNow(c *e2e.TestChain, flags ...string) e2e.Options {
	return c.With(append([]string{"--unsettled-limit", "1000"}, flags...)...).Tuned(e2e.Tuning{"SettleAt": 1})
}

// livesFor returns the change to a payment that expires after some time.
func livesFor(life time.Duration) func(*micropay.Payment) {
	return func(p *micropay.Payment) { p.Expiration = uint64(time.Now().Add(life).Unix()) }
}

// onChain returns the channel as it is on the chain.
func onChain(c *e2e.TestChain, t testing.TB, number uint64) fullnode.Channel {
	t.Helper()
	for _, channel := range c.Channels() {
		if channel.ID == number {
			return channel
		}
	}
	t.Fatalf("channel %d is not on the chain", number)
	return fullnode.Channel{}
}

// TestSettlingSurvivesKills kills the server at each step from accepting a payment to recording
// that it was collected. After a restart the server has collected each payment once.
// Invariant 165.
func TestSettlingSurvivesKills(t *testing.T) {
	t.Parallel()
	chain := e2e.StartChain(t)
	s := e2e.Start(t, settleNow(chain))
	c := chain.OpenOn(s, s.Payer(1), 7, 1000)
	s.Options.Dirty = true
	var paid []uint64
	for _, step := range fullnode.Interruptions {
		reached := step.Fault.On
		before := len(chain.Requests(reached))
		amount := uint64(10 + len(paid))
		chain.Fail(step.Fault)
		c.Buy(amount)
		chain.AwaitRequests(reached, before+1)
		s.Kill()
		chain.Heal()
		s.Restart()
		c.Settled()
		paid = append(paid, amount)
		chain.Collected(t, c.Number, paid...)
		if t.Failed() {
			t.Fatalf("after a kill %s", step.Name)
		}
	}
	if on := onChain(chain, t, c.Number); on.Withdrawn != c.Amount {
		t.Errorf("the chain has paid %d of %d", on.Withdrawn, c.Amount)
	}
}

// TestAbortStopsTheChannel executes a submission with failure. The channel sells nothing until the
// server has collected a renewal, whatever the payer deposits meanwhile.
// Invariants 165, 167.
func TestAbortStopsTheChannel(t *testing.T) {
	t.Parallel()
	chain := e2e.StartChain(t)
	s := e2e.Start(t, settleNow(chain).Tuned(e2e.Tuning{"SettleAt": 1, "ChannelRefresh": time.Second}))
	c := chain.OpenOn(s, s.Payer(1), 7, 1000)
	other := chain.OpenOn(s, s.Payer(2), 8, 1000)
	const reason = "Move abort in 0x1::fungible_asset: EFROZEN"
	chain.Fail(fullnode.Fault{On: fullnode.Submit, Times: 1, Effect: fullnode.Fail, VMStatus: reason})
	c.Buy(10)
	s.Eventually("the channel does not stop", func() bool { return c.State().State == "stopped" })
	further := e2e.PurchaseBody(t, c.Payer.Sign(t, c.Number, 2, 11).Base64(), "")
	r := s.WantCode(402, "channel_stopped", "POST", "/v1/sessions", further)
	if !strings.Contains(string(r.Body), "EFROZEN") {
		t.Errorf("a payment over the channel: %v", r)
	}
	if r := e2e.SluiceRuns(t, "check", "--books", "--data", s.Data); !strings.Contains(r.Stdout, reason) {
		t.Errorf("audit: %s%s", r.Stdout, r.Stderr)
	}
	other.Buy(10)
	other.Settled()

	on := onChain(chain, t, c.Number)
	on.Deposit += 500
	chain.Open(on)
	s.Eventually("the deposit is not seen", func() bool {
		s.WantCode(402, "channel_stopped", "POST", "/v1/sessions", further)
		return c.State().Deposit == "1500"
	})
	if r := c.Renew(2, 10); r.Status != 200 {
		t.Fatalf("a renewal: %v", r)
	}
	s.Eventually("the channel does not sell again", func() bool { return c.State().State == "open" })
	c.Sequence = 2
	c.Buy(5)
	c.Settled()
	chain.Collected(t, c.Number, 0, 10, 5)
}

// TestPaymentThatWaitsForTheChainIsOverdue reads from the metrics for how long a payment waits for
// a fullnode that takes no submission, and that none waits after it has taken it. The node takes
// these figures when it starts, and each minute after that.
func TestPaymentThatWaitsForTheChainIsOverdue(t *testing.T) {
	t.Parallel()
	chain := e2e.StartChain(t)
	s := e2e.Start(t, settleNow(chain, "--admin-addr", "127.0.0.1:0"))
	overdue := func(want string) {
		t.Helper()
		line := regexp.MustCompile(`(?m)^sluice_settlements_overdue_seconds (` + want + `)$`)
		s.Eventually("sluice_settlements_overdue_seconds is not "+want, func() bool { return line.MatchString(s.MetricsOf()) })
	}
	overdue("0")
	c := chain.OpenOn(s, s.Payer(1), 7, 1000)
	chain.Fail(fullnode.Fault{On: fullnode.Submit, Effect: fullnode.Skip, Answer: fullnode.WrongStatus, Status: 503})
	c.Buy(10)
	chain.AwaitRequests(fullnode.Submit, 1)
	s.Stop()
	s.Restart()
	overdue(`.*[1-9].*`)
	if metrics := s.MetricsOf(); !strings.Contains(metrics, "\nsluice_settlements_waiting 1\n") || !strings.Contains(metrics, "\nsluice_settlements_waiting_units 10\n") {
		t.Errorf("the waiting amount is not in the metrics:\n%s", metrics)
	}
	chain.Heal()
	c.Settled()
	s.Stop()
	s.Restart()
	overdue("0")
}
