package e2e

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/fullnode"
	"sluice/micropay"
)

// settleNow makes every accepted payment due at once.
var settleNow = []string{"--settle-at", "1", "--unsettled-limit", "1000"}

// fund puts a channel on the chain.
func (c *testChain) fund(p *payer, number, deposit uint64) fullnode.Channel {
	now := time.Now()
	channel := fullnode.Channel{
		Sender: p.signer.Address().String(), Receiver: p.terms.Receiver.String(), Asset: p.terms.Asset.String(), ID: number,
		Deposit: deposit, Created: fullnode.Time{Time: now}, Expires: fullnode.Time{Time: now.Add(24 * time.Hour)},
	}
	c.Open(channel)
	return channel
}

// open puts a channel on the chain and opens it at the server.
func (c *testChain) open(s *server, p *payer, number, deposit uint64) *channel {
	s.t.Helper()
	c.fund(p, number, deposit)
	return s.opened(p, s.must(201, "POST", channels, asJSON(s.t, map[string]any{
		"userIdentity": p.signer.Address().String(), "paymentChannelId": strconv.FormatUint(number, 10),
	})))
}

// onChain returns the channel as it is on the chain.
func (c *testChain) onChain(t testing.TB, number uint64) fullnode.Channel {
	t.Helper()
	for _, channel := range c.Channels() {
		if channel.ID == number {
			return channel
		}
	}
	t.Fatalf("channel %d is not on the chain", number)
	return fullnode.Channel{}
}

// collected fails the test unless the chain has paid exactly these amounts over the channel, one in
// each transaction, and executed no other one.
func (c *testChain) collected(t testing.TB, number uint64, paid ...uint64) {
	t.Helper()
	var got []uint64
	for _, e := range c.Executed() {
		if e.Channel == number {
			got = append(got, e.Paid)
		}
	}
	if !slices.Equal(got, paid) {
		t.Errorf("the chain has paid %v over channel %d, want %v", got, number, paid)
	}
}

// TestSettlingSurvivesKills kills the server at each step from accepting a payment to recording
// that it was collected. After a restart the server has collected each payment once.
func TestSettlingSurvivesKills(t *testing.T) {
	t.Parallel()
	chain := startChain(t)
	s := start(t, chain.with(settleNow...))
	c := chain.open(s, s.payer(1), 7, 1000)
	s.options.dirty = true
	var paid []uint64
	for _, step := range fullnode.Interruptions {
		reached := step.Fault.On
		before := len(chain.Requests(reached))
		amount := uint64(10 + len(paid))
		chain.Fail(step.Fault)
		c.buy(amount)
		chain.AwaitRequests(reached, before+1)
		s.kill()
		chain.Heal()
		s.restart()
		c.settled()
		paid = append(paid, amount)
		chain.collected(t, c.number, paid...)
		if t.Failed() {
			t.Fatalf("after a kill %s", step.Name)
		}
	}
	if on := chain.onChain(t, c.number); on.Withdrawn != c.amount {
		t.Errorf("the chain has paid %d of %d", on.Withdrawn, c.amount)
	}
}

// TestSettlingIsTakenOver kills the leader while a submission's outcome is not known. Another node
// learns it, and collects what the nodes have accepted later.
func TestSettlingIsTakenOver(t *testing.T) {
	t.Parallel()
	chain := startChain(t)
	nodes := newCluster(t, options{dirty: true, flags: chain.with(settleNow...).flags})
	nodes.start(1) // the only node, so it becomes the leader
	leader := nodes.nodes[0]
	lost := chain.open(leader, leader.payer(1), 7, 1000)
	unsent := chain.open(leader, leader.payer(2), 8, 1000)
	nodes.start(1)
	views := nodes.views(t)

	chain.Fail(fullnode.Fault{On: fullnode.Submit, Times: 1, Answer: fullnode.Hang})
	chain.Fail(fullnode.Fault{On: fullnode.Submit, Effect: fullnode.Skip, Answer: fullnode.Hang})
	for i, c := range []*channel{lost, unsent} {
		c.s = views[1]
		c.buy(10)
		chain.AwaitRequests(fullnode.Submit, i+1)
	}
	leader.kill()
	chain.Heal()
	for _, c := range []*channel{lost, unsent} {
		c.buy(5) // replaces what is pending, but not what is in flight
		c.settled()
	}
	for _, c := range []*channel{lost, unsent} {
		if on := chain.onChain(t, c.number); on.Withdrawn != 15 {
			t.Errorf("channel %d: the chain has paid %d, want 15", c.number, on.Withdrawn)
		}
	}
	for _, e := range chain.Executed() {
		if !e.Success {
			t.Errorf("the chain has executed %+v", e)
		}
	}
}

// TestSettlingOutlastsFaults pays over several channels while the fullnode fails in each way. The
// server collects each payment once.
func TestSettlingOutlastsFaults(t *testing.T) {
	t.Parallel()
	chain := startChain(t)
	s := start(t, chain.with(settleNow...))
	var open []*channel
	for i := range byte(4) {
		open = append(open, chain.open(s, s.payer(i+1), uint64(i)+7, 1000))
	}
	for _, fault := range []fullnode.Fault{
		{On: fullnode.Submit, Effect: fullnode.Skip, Answer: fullnode.Cut},
		{On: fullnode.Submit, Answer: fullnode.Cut},
		{On: fullnode.Submit, Answer: fullnode.Garbage},
		{On: fullnode.Submit, Effect: fullnode.Skip, Answer: fullnode.WrongStatus, Status: 429, RetryAfter: 1},
		{On: fullnode.Submit, Effect: fullnode.Drop},
		{On: fullnode.Lookup, Answer: fullnode.Cut},
		{On: fullnode.Lookup, Answer: fullnode.WrongStatus, Status: 503},
		{On: fullnode.View, Answer: fullnode.Garbage},
	} {
		fault.Times = 1
		chain.Fail(fault)
	}
	for _, c := range open {
		c.buy(10)
	}
	for _, c := range open {
		c.settled()
		chain.collected(t, c.number, 10)
	}
}

// TestExpiredSettlementIsCovered lets a submission expire. The server records this only when the
// chain's time is past its expiry. The channel stops, and a renewal collects its amount.
func TestExpiredSettlementIsCovered(t *testing.T) {
	t.Parallel()
	chain := startChain(t)
	s := start(t, chain.with(settleNow...))
	c := chain.open(s, s.payer(1), 7, 1000)
	brief := func(p *micropay.Payment) { p.Expiration = uint64(time.Now().Add(13 * time.Second).Unix()) }

	chain.Hold()
	asSession(t, s.must(201, "POST", "/v1/sessions", purchaseBody(t, c.next(10, brief), "")))
	chain.AwaitRequests(fullnode.Submit, 1)
	if r := c.renew(2, 10); r.status != 409 || member(t, r, "code") != "nothing_expired" {
		t.Errorf("a renewal while it is in flight: %v", r)
	}
	s.eventually("the channel does not stop", func() bool { return c.state().State == "stopped" })
	if state := c.state(); state.Settled != "0" || state.Unsettled != "10" {
		t.Errorf("the channel is %+v", state)
	}
	chain.Execute()
	s.wantCode(402, "channel_stopped", "POST", "/v1/sessions", purchaseBody(t, c.payer.sign(t, c.number, 2, 15).Base64(), ""))
	if r := c.renew(2, 10); r.status != 200 {
		t.Fatalf("a renewal: %v", r)
	}
	c.sequence = 2
	c.settled()
	c.buy(5)
	c.settled()
	chain.collected(t, c.number, 10, 5)
}

// TestAbortStopsTheChannel executes a submission with failure. The channel sells nothing until the
// server has collected a renewal, whatever the payer deposits meanwhile.
func TestAbortStopsTheChannel(t *testing.T) {
	t.Parallel()
	chain := startChain(t)
	s := start(t, chain.with(append(settleNow, "--channel-refresh", "1s")...))
	c := chain.open(s, s.payer(1), 7, 1000)
	other := chain.open(s, s.payer(2), 8, 1000)
	const reason = "Move abort in 0x1::fungible_asset: EFROZEN"
	chain.Fail(fullnode.Fault{On: fullnode.Submit, Times: 1, Effect: fullnode.Fail, VMStatus: reason})
	c.buy(10)
	s.eventually("the channel does not stop", func() bool { return c.state().State == "stopped" })
	further := purchaseBody(t, c.payer.sign(t, c.number, 2, 11).Base64(), "")
	r := s.wantCode(402, "channel_stopped", "POST", "/v1/sessions", further)
	if !strings.Contains(string(r.body), "EFROZEN") {
		t.Errorf("a payment over the channel: %v", r)
	}
	if r := sluiceRuns(t, "audit", "--data", s.data); !strings.Contains(r.stdout, reason) {
		t.Errorf("audit: %s%s", r.stdout, r.stderr)
	}
	other.buy(10)
	other.settled()

	on := chain.onChain(t, c.number)
	on.Deposit += 500
	chain.Open(on)
	s.eventually("the deposit is not seen", func() bool {
		s.wantCode(402, "channel_stopped", "POST", "/v1/sessions", further)
		return c.state().Deposit == "1500"
	})
	if r := c.renew(2, 10); r.status != 200 {
		t.Fatalf("a renewal: %v", r)
	}
	s.eventually("the channel does not sell again", func() bool { return c.state().State == "open" })
	c.sequence = 2
	c.buy(5)
	c.settled()
	chain.collected(t, c.number, 0, 10, 5)
}

// TestPaymentThatWaitsForTheChainIsOverdue reads from the metrics for how long a payment waits for
// a fullnode that takes no submission, and that none waits after it has taken it. The node takes
// these figures when it starts, and each minute after that.
func TestPaymentThatWaitsForTheChainIsOverdue(t *testing.T) {
	t.Parallel()
	chain := startChain(t)
	s := start(t, chain.with(append(settleNow, "--admin-addr", "127.0.0.1:0")...))
	overdue := func(want string) {
		t.Helper()
		line := regexp.MustCompile(`(?m)^sluice_settlements_overdue_seconds (` + want + `)$`)
		s.eventually("sluice_settlements_overdue_seconds is not "+want, func() bool { return line.MatchString(s.metricsOf()) })
	}
	overdue("0")
	c := chain.open(s, s.payer(1), 7, 1000)
	chain.Fail(fullnode.Fault{On: fullnode.Submit, Effect: fullnode.Skip, Answer: fullnode.WrongStatus, Status: 503})
	c.buy(10)
	chain.AwaitRequests(fullnode.Submit, 1)
	s.stop()
	s.restart()
	overdue(`.*[1-9].*`)
	if metrics := s.metricsOf(); !strings.Contains(metrics, "\nsluice_settlements_waiting 1\n") || !strings.Contains(metrics, "\nsluice_settlements_waiting_units 10\n") {
		t.Errorf("what waits is not in the metrics:\n%s", metrics)
	}
	chain.Heal()
	c.settled()
	s.stop()
	s.restart()
	overdue("0")
}
