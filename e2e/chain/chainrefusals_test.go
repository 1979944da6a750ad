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
