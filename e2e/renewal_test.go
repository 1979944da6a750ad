package e2e

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"sluice/database/sqlstore"
	"sluice/internal/fullnode"
	"sluice/ledger"
	"sluice/micropay"
)

// renew sends a renewal of what was paid over a channel, with a sequence number.
func (c *channel) renew(sequence, amount uint64) response {
	c.s.t.Helper()
	return c.s.do("POST", channels+"/"+c.id+"/renew", asJSON(c.s.t, map[string]any{
		"micropaymentUpdate": c.payer.sign(c.s.t, c.number, sequence, amount).Base64(),
	}))
}

// TestRenewal lets a channel at its limit expire while the chain is away. No further payment brings
// it back, and a renewal does.
func TestRenewal(t *testing.T) {
	t.Parallel()
	chain := startChain(t)
	s := start(t, chain.with("--settle-at", "1", "--unsettled-limit", "100"))
	c := chain.open(s, s.payer(1), 7, 1000)
	chain.Fail(fullnode.Fault{On: fullnode.Submit, Effect: fullnode.Skip, Answer: fullnode.WrongStatus, Status: 503})
	brief := func(p *micropay.Payment) { p.Expiration = uint64(time.Now().Add(13 * time.Second).Unix()) }
	s.must(201, "POST", "/v1/sessions", purchaseBody(t, c.next(100, brief), ""))
	if r := c.renew(2, 100); r.status != 409 || member(t, r, "code") != "nothing_expired" {
		t.Errorf("before it has expired: %v", r)
	}
	expired := func() bool {
		return bytes.Contains(s.must(200, "GET", channels+"/"+c.id, nil).body, []byte(`"expired":"100"`))
	}
	s.eventually("the payment does not expire", expired)
	chain.Heal()
	if r := c.tryBuy(1); r.status != 402 {
		t.Errorf("a further payment: %v", r)
	}
	other := chain.open(s, s.payer(2), 8, 1000)
	for _, test := range []struct {
		what             string
		status           int
		code             string
		sequence, amount uint64
		of               *channel
	}{
		{"a greater amount", 409, "micropayment_stale", 2, 101, c},
		{"a smaller amount", 409, "micropayment_stale", 2, 99, c},
		{"the same number", 409, "micropayment_stale", 1, 100, c},
		{"another channel", 400, "bad_parameter", 2, 100, other},
	} {
		payment := test.of.payer.sign(t, test.of.number, test.sequence, test.amount).Base64()
		r := s.wantCode(test.status, test.code, "POST", channels+"/"+c.id+"/renew", asJSON(t, map[string]any{"micropaymentUpdate": payment}))
		if test.code == "micropayment_stale" && member(t, r, "storedMicropayment") == "" {
			t.Errorf("%s: %v", test.what, r)
		}
	}
	s.wantCode(404, "channel_not_found", "POST", channels+"/unknown/renew", asJSON(t, map[string]any{"micropaymentUpdate": c.payer.sign(t, c.number, 2, 100).Base64()}))
	s.wantCode(400, "micropayment_malformed", "POST", channels+"/"+c.id+"/renew", []byte(`{"micropaymentUpdate": "AAAA"}`))
	s.wantCode(400, "bad_json", "POST", channels+"/"+c.id+"/renew", nil)

	renewal := asJSON(t, map[string]any{"micropaymentUpdate": c.payer.sign(t, c.number, 2, 100).Base64()})
	for range 2 {
		var state channelState
		s.must(200, "POST", channels+"/"+c.id+"/renew", renewal).decode(t, &state)
		if state.Accepted != "100" || state.SequenceNumber != "2" || len(state.Sessions) != 1 {
			t.Errorf("%+v", state)
		}
	}
	c.sequence = 2
	c.settled()
	chain.collected(t, c.number, 100)
	c.buy(50)
	c.settled()
}

// TestExpiredPaymentsAreBooked kills a server while a channel at its limit has a payment that the
// server has not booked yet. The payment expires before the server runs again, and the server books
// it. The channel sells on.
func TestExpiredPaymentsAreBooked(t *testing.T) {
	t.Parallel()
	s := start(t, options{dirty: true, flags: []string{"--reads", "paid", "--unsettled-limit", "100"}})
	c := s.open(s.payer(1), 1000)
	terms := c.payer.terms
	s.kill()
	store, err := sqlstore.OpenSQLite(filepath.Join(s.data, "meta.db"), sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := c.payer.sign(t, c.number, 1, 100, func(p *micropay.Payment) { p.Expiration = uint64(time.Now().Add(-time.Minute).Unix()) })
	_, err = store.Buy(t.Context(), ledger.Purchase{
		Payment: ledger.Payment{
			Sender: c.payer.signer.Address().String(), Receiver: terms.Receiver.String(), Asset: terms.Asset.String(), PaymentChannelID: int64(c.number),
			Sequence: 1, Amount: 100, Proof: m.Bytes(), Expires: m.Expires(), UnsettledLimit: 100,
		},
		Price: 1, Session: ledger.Session{ID: "a-session-of-the-killed-server", Expires: time.Now().Add(time.Hour)},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	c.sequence, c.amount = 1, 100
	s.restart()
	c.settled()
	c.buy(100)
	c.settled()
}
