package e2e

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/internal/fullnode"
	"sluice/micropay"
)

// tryBuy sends the next payment with changes, without expecting a response.
func (c *channel) tryBuy(more uint64, change ...func(*micropay.Payment)) response {
	c.s.t.Helper()
	r := c.s.do("POST", "/v1/sessions", purchaseBody(c.s.t, c.payer.sign(c.s.t, c.number, c.sequence+1, c.amount+more, change...).Base64(), ""))
	if r.status == 201 {
		c.sequence, c.amount = c.sequence+1, c.amount+more
	}
	return r
}

// refuses fails the test unless the server refuses a payment for this reason.
func (c *channel) refuses(what, reason string, change ...func(*micropay.Payment)) response {
	c.s.t.Helper()
	r := c.tryBuy(10, change...)
	if r.status != 402 || member(c.s.t, r, "code") != "micropayment_refused" || member(c.s.t, r, "reason") != reason {
		c.s.t.Errorf("%s: %v, want the reason %s", what, r, reason)
	}
	return r
}

func gasOf(units, price uint64) func(*micropay.Payment) {
	return func(p *micropay.Payment) { p.MaxGas, p.GasPrice = units, price }
}

// withoutNonce returns the change to a form without a nonce.
func withoutNonce(form micropay.Form, accountSequence uint64) func(*micropay.Payment) {
	return func(p *micropay.Payment) { p.Form, p.Nonce, p.AccountSequence = form, 0, accountSequence }
}

// TestPaymentsThatCannotBeExecuted pays in each way that the chain can never execute. Each buys
// nothing, and the server collects the payments that the chain can execute.
func TestPaymentsThatCannotBeExecuted(t *testing.T) {
	t.Parallel()
	chain := startChain(t)
	chain.SetCosts(500, 900)
	s := start(t, chain.with(settleNow...))
	c := chain.open(s, s.payer(1), 7, 1000)
	chain.SetAccountSequence(c.payer.signer.Address().String(), 5)

	c.refuses("less gas than the chain requires", "execution", gasOf(499, 100))
	c.refuses("too little gas to execute", "execution", gasOf(600, 100))
	c.refuses("the plain form of a past transaction", "account_sequence", withoutNonce(micropay.FormPlain, 0))
	c.refuses("the versioned form of a past transaction", "account_sequence", withoutNonce(micropay.FormSequence, 4))
	rotated := chain.open(s, s.payer(2), 8, 1000)
	chain.RotateKey(rotated.payer.signer.Address().String(), s.payer(3).signer.Address().String())
	rotated.refuses("a rotated key", "execution")
	ending := chain.fund(s.payer(4), 9, 1000)
	c.refuses("a payment that ends", "expired", func(p *micropay.Payment) { p.Expiration = uint64(time.Now().Add(8 * time.Second).Unix()) })
	chain.Extend(ending, time.Now().Add(9*time.Second))
	ends := s.opened(s.payer(4), s.must(201, "POST", channels, asJSON(t, map[string]any{
		"userIdentity": s.payer(4).signer.Address().String(), "paymentChannelId": "9",
	})))
	if r := ends.tryBuy(10); r.status != 410 || !strings.Contains(string(r.body), "ends too soon") && !strings.Contains(string(r.body), "has expired") {
		t.Errorf("a channel that ends: %v", r)
	}
	for _, one := range []*channel{c, rotated, ends} {
		if state := one.state(); state.Accepted != "0" || state.Unsettled != "0" {
			t.Errorf("a refused payment was accepted: %+v", state)
		}
	}
	if executed := chain.Executed(); len(executed) > 0 {
		t.Errorf("the chain has executed %+v", executed)
	}

	for i, form := range []func(*micropay.Payment){
		gasOf(900, 100), withoutNonce(micropay.FormPlain, 5), withoutNonce(micropay.FormSequence, 6), func(*micropay.Payment) {},
	} {
		if r := c.tryBuy(10, form); r.status != 201 {
			t.Fatalf("form %d: %v", i, r)
		}
		c.settled()
	}
	chain.collected(t, c.number, 10, 10, 10, 10)
	if r := c.refuses("less gas than a simulation has needed", "gas", gasOf(899, 100)); member(t, r, "minGas") != "900" {
		t.Errorf("%v", r)
	}
}

// TestSalesWithoutSimulations pays while the chain simulates nothing. The server sells only the
// starting limit.
func TestSalesWithoutSimulations(t *testing.T) {
	t.Parallel()
	chain := startChain(t)
	s := start(t, chain.with("--unsettled-limit", "1000", "--starting-limit", "30"))
	s.logged("what a coin of the chain is worth is not known, so fees are not compared with what they collect: set --coin-price")
	c := chain.open(s, s.payer(1), 7, 1000)
	for _, op := range []fullnode.Operation{fullnode.Simulate, fullnode.Submit} {
		chain.Fail(fullnode.Fault{On: op, Effect: fullnode.Skip, Answer: fullnode.WrongStatus, Status: 503})
	}
	c.buy(30)
	r := c.tryBuy(1)
	if r.status != 402 || member(t, r, "code") != "unsettled_limit" || member(t, r, "limit") != "30" || member(t, r, "unsettled") != "30" {
		t.Errorf("above the starting limit: %v", r)
	}
	chain.Heal()
	s.must(200, "POST", channels+"/"+c.id+"/close", nil) // the server submits what is pending now
	c.settled()
}

// TestGasGriefing pays little at a gas price that costs the receiver much, and checks that the
// terms say what the server accepts.
func TestGasGriefing(t *testing.T) {
	t.Parallel()
	chain := startChain(t)
	// A unit is 100 of the chain's smallest coins.
	s := start(t, chain.with("--unsettled-limit", "1000", "--coin-price", "1000000", "--max-settle-gas", "1000000000000"))
	c := chain.open(s, s.payer(1), 7, 1000)
	var terms struct {
		Payment struct{ StartingLimit, MinGas, MinGasPrice, MaxGasPrice, MaxFee string }
	}
	s.eventually("the gas prices of the chain are not known", func() bool {
		s.must(200, "GET", "/v1/info", nil).decode(t, &terms)
		return terms.Payment.MaxGasPrice != ""
	})
	if got := terms.Payment; got.StartingLimit != "100" || got.MinGas != "3" || got.MinGasPrice != "100" || got.MaxGasPrice != "500" || got.MaxFee != "1000000000000" {
		t.Errorf("the terms are %+v", got)
	}
	if r := c.refuses("a thousand times the usual price", "gas", gasOf(200_000, 100_000)); member(t, r, "maxGasPrice") != "500" || member(t, r, "minGasPrice") != "100" {
		t.Errorf("%v", r)
	}
	chain.SetCosts(500, 2100)
	c.refuses("more gas than the starting limit pays", "fee", gasOf(200_000, 500)) // 2,100 at 500 are 10,500 units
	if state := c.state(); state.Accepted != "0" {
		t.Errorf("%+v", state)
	}
}

// TestChainAheadOfTheClock lets the chain's time be ahead of the server's clock. The server sells
// nothing until they agree, and serves what was bought.
func TestChainAheadOfTheClock(t *testing.T) {
	t.Parallel()
	chain := startChain(t)
	s := start(t, chain.with("--unsettled-limit", "1000", "--admin-addr", "127.0.0.1:0"))
	c := chain.open(s, s.payer(1), 7, 1000)
	session := c.buy(10)
	stops := regexp.MustCompile(`(?m)^sluice_clock_stops_sales 1$`)
	for _, ahead := range []time.Duration{20 * time.Second, 2 * time.Minute} {
		chain.Advance(ahead)
		s.eventually("something is sold by another clock", func() bool { return c.tryBuy(1).status == 503 })
		s.wantCode(503, "unavailable", "POST", "/v1/sessions", purchaseBody(t, c.payer.sign(t, c.number, c.sequence+1, c.amount+1).Base64(), ""))
		s.must(200, "POST", "/v1/sessions/"+session.SessionID+"/use", nil)
		if !stops.MatchString(s.metricsOf()) {
			t.Errorf("sluice_clock_stops_sales is not 1 at %s", ahead)
		}
		chain.Advance(-ahead)
		s.eventually("nothing is sold again", func() bool { return c.tryBuy(1).status == 201 })
	}
	s.logged("nothing is sold, because the time of the chain and the clock differ too much", "the time of the chain agrees with the clock again")
}

// TestFullnodeADayAhead asks a fullnode that states a time a day ahead. The server sells nothing,
// and records nothing that the fullnode says, until a fullnode agrees with the clock.
func TestFullnodeADayAhead(t *testing.T) {
	t.Parallel()
	chain, honest := startChain(t), fullnode.Start(t, fullnode.Options{})
	s := start(t, chain.with("--unsettled-limit", "1000", "--channel-refresh", "1s"))
	c := chain.open(s, s.payer(1), 7, 1000)
	honest.Open(chain.onChain(t, 7))
	c.buy(10)
	chain.Lie(24 * time.Hour)
	s.eventually("something is sold by a fullnode a day ahead", func() bool { return c.tryBuy(1).status == 503 })
	s.wantCode(503, "unavailable", "POST", channels, asJSON(t, map[string]any{"userIdentity": c.payer.signer.Address().String(), "paymentChannelId": "8"}))
	before := c.state()

	s.stop()
	s.restart()
	if r := c.tryBuy(1); r.status != 503 {
		t.Errorf("after a restart: %v", r)
	}
	s.stop()
	s.options.flags = append(s.options.flags, "--chain-url", honest.URL())
	s.restart()
	s.eventually("nothing is sold beside an honest fullnode", func() bool { return c.tryBuy(1).status == 201 })
	if after := c.state(); after.Deposit != before.Deposit || after.State != "open" {
		t.Errorf("the channel is %+v, and was %+v", after, before)
	}
}

// TestChannelIsExtended extends a channel on the chain after it has expired here.
func TestChannelIsExtended(t *testing.T) {
	t.Parallel()
	chain := startChain(t)
	s := start(t, chain.with(settleNow...))
	p := s.payer(1)
	on := chain.fund(p, 7, 1000)
	chain.Extend(on, time.Now().Add(14*time.Second))
	c := s.opened(p, s.must(201, "POST", channels, asJSON(t, map[string]any{"userIdentity": p.signer.Address().String(), "paymentChannelId": "7"})))
	c.buy(10)
	c.settled()
	s.eventually("the channel does not expire", func() bool { return c.state().State == "expired" })
	if r := c.tryBuy(1); r.status != 410 {
		t.Errorf("over an expired channel: %v", r)
	}
	chain.Extend(on, time.Now().Add(time.Hour))
	s.eventually("the extended channel does not sell", func() bool { return c.tryBuy(1).status == 201 })
	c.settled()
	chain.collected(t, c.number, 10, 1)
}

// TestTwoInstancesOfOneReceiver pays two instances with one micropayment. The instance that has not
// collected it says so.
func TestTwoInstancesOfOneReceiver(t *testing.T) {
	t.Parallel()
	chain := startChain(t)
	first := start(t, chain.with(settleNow...))
	second := start(t, chain.with("--unsettled-limit", "1000", "--channel-refresh", "1s", "--admin-addr", "127.0.0.1:0"))
	c := chain.open(first, first.payer(1), 7, 1000)
	other := second.opened(c.payer, second.must(201, "POST", channels, asJSON(t, map[string]any{
		"userIdentity": c.payer.signer.Address().String(), "paymentChannelId": "7",
	})))
	payment := purchaseBody(t, c.next(10), "")
	second.must(201, "POST", "/v1/sessions", payment)
	first.must(201, "POST", "/v1/sessions", payment)
	c.settled()
	other.sequence, other.amount = c.sequence, c.amount
	second.eventually("the withdrawal of the other instance is not seen", func() bool {
		other.tryBuy(1)
		return bytes.Contains(second.must(200, "GET", channels+"/"+other.id, nil).body, []byte(`"elsewhere":"10"`))
	})
	if r := first.must(200, "GET", channels+"/"+c.id, nil); bytes.Contains(r.body, []byte(`"elsewhere"`)) {
		t.Errorf("the instance that has collected: %s", r.body)
	}
	second.stop()
	second.restart() // the review counts at the start, and each minute after that
	second.eventually("the withdrawal is not in the metrics", func() bool {
		metrics := second.metricsOf()
		return strings.Contains(metrics, "\nsluice_withdrawn_elsewhere 1\n") && strings.Contains(metrics, "\nsluice_withdrawn_elsewhere_units 10\n")
	})
}

// TestReconcileAChannel compares a channel with the chain after others have withdrawn something
// there.
func TestReconcileAChannel(t *testing.T) {
	t.Parallel()
	chain := startChain(t)
	s := start(t, chain.with("--unsettled-limit", "1000"))
	c := chain.open(s, s.payer(1), 7, 1000)
	c.buy(10)
	on := chain.onChain(t, 7)
	on.Withdrawn, on.NextSequence = 40, 9
	chain.Open(on)
	var r struct {
		Channel, After channelState
		Chain          struct{ Deposit, Withdrawn, NextSequenceNumber string }
	}
	target := channels + "/" + c.id + "/reconcile"
	s.must(200, "POST", target, nil).decode(t, &r)
	if r.Channel.Accepted != "10" || r.Chain.Withdrawn != "40" || r.Chain.NextSequenceNumber != "9" || r.Chain.Deposit != "1000" || r.After.ChannelID != "" {
		t.Errorf("%+v", r)
	}
	if state := c.state(); state.Settled != "0" {
		t.Errorf("%+v", state)
	}
	for range 2 {
		s.must(200, "POST", target, []byte(`{"write": true}`)).decode(t, &r)
		if r.After.Accepted != "40" || r.After.Settled != "40" || r.After.Credit != "0" {
			t.Errorf("%+v", r)
		}
	}
	c.sequence, c.amount = 8, 40
	c.buy(5)
	s.wantCode(404, "channel_not_found", "POST", channels+"/unknown/reconcile", nil)
	chain.Remove(on)
	if body := s.must(200, "POST", target, nil).body; bytes.Contains(body, []byte(`"chain"`)) {
		t.Errorf("a channel that is gone: %s", body)
	}
	chain.Fail(fullnode.Fault{On: fullnode.View, Answer: fullnode.Cut})
	s.wantCode(503, "unavailable", "POST", target, nil)
}
