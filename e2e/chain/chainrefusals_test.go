package chain

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/micropay"
	"sluice/test/fullnode"
)

// gasOf returns the change to a payment with other gas.
func gasOf(units, price uint64) func(*micropay.Payment) {
	return func(p *micropay.Payment) { p.MaxGas, p.GasPrice = units, price }
}

// withoutNonce returns the change to a form without a nonce.
func withoutNonce(form micropay.Form, accountSequence uint64) func(*micropay.Payment) {
	return func(p *micropay.Payment) { p.Form, p.Nonce, p.AccountSequence = form, 0, accountSequence }
}

// TestPaymentsThatCannotBeExecuted pays in each way that the chain can never execute. Each buys
// nothing, and the server collects the payments that the chain can execute.
// Invariant 176.
func TestPaymentsThatCannotBeExecuted(t *testing.T) {
	t.Parallel()
	chain := e2e.StartChain(t)
	chain.SetCosts(500, 900)
	s := e2e.Start(t, settleNow(chain))
	c := chain.OpenOn(s, s.Payer(1), 7, 1000)
	chain.SetAccountSequence(c.Payer.Signer.Address().String(), 5)

	c.Refuses("less gas than the chain requires", "execution", gasOf(499, 100))
	c.Refuses("too little gas to execute", "execution", gasOf(600, 100))
	c.Refuses("the plain form of a past transaction", "account_sequence", withoutNonce(micropay.FormPlain, 0))
	c.Refuses("the versioned form of a past transaction", "account_sequence", withoutNonce(micropay.FormSequence, 4))
	rotated := chain.OpenOn(s, s.Payer(2), 8, 1000)
	chain.RotateKey(rotated.Payer.Signer.Address().String(), s.Payer(3).Signer.Address().String())
	rotated.Refuses("a rotated key", "execution")
	ending := chain.Fund(s.Payer(4), 9, 1000)
	c.Refuses("a payment that ends", "expired", livesFor(8*time.Second))
	chain.Extend(ending, time.Now().Add(9*time.Second))
	ends := s.Opened(s.Payer(4), s.Must(201, "POST", e2e.Channels, e2e.AsJSON(t, map[string]any{
		"userIdentity": s.Payer(4).Signer.Address().String(), "paymentChannelId": "9",
	})))
	if r := ends.TryBuy(10); r.Status != 410 || !strings.Contains(string(r.Body), "ends too soon") && !strings.Contains(string(r.Body), "has expired") {
		t.Errorf("a channel that ends: %v", r)
	}
	for _, one := range []*e2e.Channel{c, rotated, ends} {
		if state := one.State(); state.Accepted != "0" || state.Unsettled != "0" {
			t.Errorf("a refused payment was accepted: %+v", state)
		}
	}
	if executed := chain.Executed(); len(executed) > 0 {
		t.Errorf("the chain has executed %+v", executed)
	}

	for i, form := range []func(*micropay.Payment){
		gasOf(900, 100), withoutNonce(micropay.FormPlain, 5), withoutNonce(micropay.FormSequence, 6), func(*micropay.Payment) {},
	} {
		if r := c.TryBuy(10, form); r.Status != 201 {
			t.Fatalf("form %d: %v", i, r)
		}
		c.Settled()
	}
	chain.Collected(t, c.Number, 10, 10, 10, 10)
	if r := c.Refuses("less gas than a simulation has needed", "gas", gasOf(899, 100)); e2e.Member(t, r, "minGas") != "900" {
		t.Errorf("%v", r)
	}
}

// TestSalesWithoutSimulations pays while the chain simulates nothing. The server sells only the
// starting limit.
// Invariant 176.
func TestSalesWithoutSimulations(t *testing.T) {
	t.Parallel()
	chain := e2e.StartChain(t)
	s := e2e.Start(t, chain.With("--unsettled-limit", "1000").Tuned(e2e.Tuning{"StartingLimit": 30}))
	s.Logged("what a coin of the chain is worth is not known, so fees are not compared with what they collect: set --coin-price")
	c := chain.OpenOn(s, s.Payer(1), 7, 1000)
	for _, op := range []fullnode.Operation{fullnode.Simulate, fullnode.Submit} {
		chain.Fail(fullnode.Fault{On: op, Effect: fullnode.Skip, Answer: fullnode.WrongStatus, Status: 503})
	}
	c.Buy(30)
	r := c.TryBuy(1)
	if r.Status != 402 || e2e.Member(t, r, "code") != "unsettled_limit" || e2e.Member(t, r, "limit") != "30" || e2e.Member(t, r, "unsettled") != "30" {
		t.Errorf("above the starting limit: %v", r)
	}
	chain.Heal()
	s.Must(200, "POST", e2e.Channels+"/"+c.ID+"/close", nil) // the server submits the pending settlement now
	c.Settled()
}

// TestGasGriefing pays little at a gas price that costs the receiver much, and checks that the
// terms state the gas that the server accepts.
// Invariant 177.
func TestGasGriefing(t *testing.T) {
	t.Parallel()
	chain := e2e.StartChain(t)
	// A unit is 100 times the chain's smallest coin.
	s := e2e.Start(t, chain.With("--unsettled-limit", "1000", "--coin-price", "1000000").Tuned(e2e.Tuning{"MaxFee": 1_000_000_000_000}))
	c := chain.OpenOn(s, s.Payer(1), 7, 1000)
	var terms struct {
		Payment struct{ StartingLimit, MinGas, MinGasPrice, MaxGasPrice, MaxFee string }
	}
	s.Eventually("the gas prices of the chain are not known", func() bool {
		s.Must(200, "GET", "/v1/info", nil).Decode(t, &terms)
		return terms.Payment.MaxGasPrice != ""
	})
	if got := terms.Payment; got.StartingLimit != "100" || got.MinGas != "3" || got.MinGasPrice != "100" || got.MaxGasPrice != "500" || got.MaxFee != "1000000000000" {
		t.Errorf("the terms are %+v", got)
	}
	if r := c.Refuses("a thousand times the usual price", "gas", gasOf(200_000, 100_000)); e2e.Member(t, r, "maxGasPrice") != "500" || e2e.Member(t, r, "minGasPrice") != "100" {
		t.Errorf("%v", r)
	}
	chain.SetCosts(500, 2100)
	c.Refuses("more gas than the starting limit pays", "fee", gasOf(200_000, 500)) // 2,100 at 500 are 10,500 units
	if state := c.State(); state.Accepted != "0" {
		t.Errorf("%+v", state)
	}
}

// TestChainAheadOfTheClock lets the chain's time be ahead of the server's clock. The server sells
// nothing until they agree, and serves reads with bought chunksets.
// Invariant 174.
func TestChainAheadOfTheClock(t *testing.T) {
	t.Parallel()
	chain := e2e.StartChain(t)
	s := e2e.Start(t, chain.With("--unsettled-limit", "1000", "--admin-addr", "127.0.0.1:0"))
	c := chain.OpenOn(s, s.Payer(1), 7, 1000)
	session := c.Buy(10)
	stops := regexp.MustCompile(`(?m)^sluice_clock_stops_sales 1$`)
	for _, ahead := range []time.Duration{20 * time.Second, 2 * time.Minute} {
		chain.Advance(ahead)
		s.Eventually("something is sold by another clock", func() bool { return c.TryBuy(1).Status == 503 })
		s.WantCode(503, "unavailable", "POST", "/v1/sessions", e2e.PurchaseBody(t, c.Payer.Sign(t, c.Number, c.Sequence+1, c.Amount+1).Base64(), ""))
		s.Must(200, "POST", "/v1/sessions/"+session.SessionID+"/use", nil)
		if !stops.MatchString(s.MetricsOf()) {
			t.Errorf("sluice_clock_stops_sales is not 1 at %s", ahead)
		}
		chain.Advance(-ahead)
		s.Eventually("nothing is sold again", func() bool { return c.TryBuy(1).Status == 201 })
	}
	s.Logged("nothing is sold, because the time of the chain and the clock differ too much", "the time of the chain agrees with the clock again")
}

// TestFullnodeADayAhead asks a fullnode that states a time a day ahead. The server sells nothing,
// and records nothing from the fullnode, until a fullnode agrees with the clock.
// Invariant 174.
func TestFullnodeADayAhead(t *testing.T) {
	t.Parallel()
	chain, honest := e2e.StartChain(t), fullnode.Start(t, fullnode.Options{})
	s := e2e.Start(t, chain.With("--unsettled-limit", "1000").Tuned(e2e.Tuning{"ChannelRefresh": time.Second}))
	c := chain.OpenOn(s, s.Payer(1), 7, 1000)
	honest.Open(onChain(chain, t, 7))
	c.Buy(10)
	chain.Lie(24 * time.Hour)
	s.Eventually("something is sold by a fullnode a day ahead", func() bool { return c.TryBuy(1).Status == 503 })
	s.WantCode(503, "unavailable", "POST", e2e.Channels, e2e.AsJSON(t, map[string]any{"userIdentity": c.Payer.Signer.Address().String(), "paymentChannelId": "8"}))
	before := c.State()

	s.Stop()
	s.Restart()
	if r := c.TryBuy(1); r.Status != 503 {
		t.Errorf("after a restart: %v", r)
	}
	s.Stop()
	s.Options.Flags = append(s.Options.Flags, "--chain-url", honest.URL())
	s.Restart()
	s.Eventually("nothing is sold beside an honest fullnode", func() bool { return c.TryBuy(1).Status == 201 })
	if after := c.State(); after.Deposit != before.Deposit || after.State != "open" {
		t.Errorf("the channel is %+v, and was %+v", after, before)
	}
}

// TestChannelIsExtended extends a channel on the chain after it has expired here.
// Invariant 168.
func TestChannelIsExtended(t *testing.T) {
	t.Parallel()
	chain := e2e.StartChain(t)
	s := e2e.Start(t, settleNow(chain))
	p := s.Payer(1)
	on := chain.Fund(p, 7, 1000)
	chain.Extend(on, time.Now().Add(14*time.Second))
	c := s.Opened(p, s.Must(201, "POST", e2e.Channels, e2e.AsJSON(t, map[string]any{"userIdentity": p.Signer.Address().String(), "paymentChannelId": "7"})))
	c.Buy(10)
	c.Settled()
	s.Eventually("the channel does not expire", func() bool { return c.State().State == "expired" })
	if r := c.TryBuy(1); r.Status != 410 {
		t.Errorf("over an expired channel: %v", r)
	}
	chain.Extend(on, time.Now().Add(time.Hour))
	s.Eventually("the extended channel does not sell", func() bool { return c.TryBuy(1).Status == 201 })
	c.Settled()
	chain.Collected(t, c.Number, 10, 1)
}

// TestTwoInstancesOfOneReceiver pays two instances with one micropayment. The instance that has not
// collected it reports that.
// Invariant 180.
func TestTwoInstancesOfOneReceiver(t *testing.T) {
	t.Parallel()
	chain := e2e.StartChain(t)
	first := e2e.Start(t, settleNow(chain))
	second := e2e.Start(t, chain.With("--unsettled-limit", "1000", "--admin-addr", "127.0.0.1:0").Tuned(e2e.Tuning{"ChannelRefresh": time.Second}))
	c := chain.OpenOn(first, first.Payer(1), 7, 1000)
	other := second.Opened(c.Payer, second.Must(201, "POST", e2e.Channels, e2e.AsJSON(t, map[string]any{
		"userIdentity": c.Payer.Signer.Address().String(), "paymentChannelId": "7",
	})))
	payment := e2e.PurchaseBody(t, c.Next(10), "")
	second.Must(201, "POST", "/v1/sessions", payment)
	first.Must(201, "POST", "/v1/sessions", payment)
	c.Settled()
	other.Sequence, other.Amount = c.Sequence, c.Amount
	second.Eventually("the withdrawal of the other instance is not seen", func() bool {
		other.TryBuy(1)
		return bytes.Contains(second.Must(200, "GET", e2e.Channels+"/"+other.ID, nil).Body, []byte(`"elsewhere":"10"`))
	})
	if r := first.Must(200, "GET", e2e.Channels+"/"+c.ID, nil); bytes.Contains(r.Body, []byte(`"elsewhere"`)) {
		t.Errorf("the instance that has collected: %s", r.Body)
	}
	second.Stop()
	second.Restart() // the review counts at the start, and each minute after that
	second.Eventually("the withdrawal is not in the metrics", func() bool {
		metrics := second.MetricsOf()
		return strings.Contains(metrics, "\nsluice_withdrawn_elsewhere 1\n") && strings.Contains(metrics, "\nsluice_withdrawn_elsewhere_units 10\n")
	})
}

// TestReconcileAChannel compares a channel with the chain after a third party has withdrawn
// something there.
// Invariant 180.
func TestReconcileAChannel(t *testing.T) {
	t.Parallel()
	chain := e2e.StartChain(t)
	s := e2e.Start(t, chain.With("--unsettled-limit", "1000"))
	c := chain.OpenOn(s, s.Payer(1), 7, 1000)
	c.Buy(10)
	on := onChain(chain, t, 7)
	on.Withdrawn, on.NextSequence = 40, 9
	chain.Open(on)
	var r struct {
		Channel, After e2e.ChannelState
		Chain          struct{ Deposit, Withdrawn, NextSequenceNumber string }
	}
	target := e2e.Channels + "/" + c.ID + "/reconcile"
	s.Must(200, "POST", target, nil).Decode(t, &r)
	if r.Channel.Accepted != "10" || r.Chain.Withdrawn != "40" || r.Chain.NextSequenceNumber != "9" || r.Chain.Deposit != "1000" || r.After.ChannelID != "" {
		t.Errorf("%+v", r)
	}
	if state := c.State(); state.Settled != "0" {
		t.Errorf("%+v", state)
	}
	for range 2 {
		s.Must(200, "POST", target, []byte(`{"write": true}`)).Decode(t, &r)
		if r.After.Accepted != "10" || r.After.Settled != "40" || r.After.Credit != "0" {
			t.Errorf("%+v", r)
		}
	}
	c.Sequence, c.Amount = 8, 40
	c.Buy(5)
	s.WantCode(404, "channel_not_found", "POST", e2e.Channels+"/unknown/reconcile", nil)
	chain.Remove(on)
	if body := s.Must(200, "POST", target, nil).Body; bytes.Contains(body, []byte(`"chain"`)) {
		t.Errorf("a channel that is gone: %s", body)
	}
	chain.Fail(fullnode.Fault{On: fullnode.View, Answer: fullnode.Cut})
	s.WantCode(503, "unavailable", "POST", target, nil)
}
