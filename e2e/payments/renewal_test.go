package payments

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"sluice/database/sqlstore"
	"sluice/e2e"
	"sluice/ledger"
	"sluice/micropay"
	"sluice/test/fullnode"
	"sluice/test/testenv"
)

// TestRenewal lets a channel at its limit expire while the chain is away. No further payment brings
// it back, and a renewal does.
// Invariant 179.
func TestRenewal(t *testing.T) {
	t.Parallel()
	chain := e2e.StartChain(t)
	s := e2e.Start(t, chain.With("--unsettled-limit", "100").Tuned(e2e.Tuning{"SettleAt": 1}))
	c := chain.OpenOn(s, s.Payer(1), 7, 1000)
	chain.Fail(fullnode.Fault{On: fullnode.Submit, Effect: fullnode.Skip, Answer: fullnode.WrongStatus, Status: 503})
	brief := func(p *micropay.Payment) { p.Expiration = uint64(time.Now().Add(13 * time.Second).Unix()) }
	s.Must(201, "POST", "/v1/sessions", e2e.PurchaseBody(t, c.Next(100, brief), ""))
	if r := c.Renew(2, 100); r.Status != 409 || e2e.Member(t, r, "code") != "nothing_expired" {
		t.Errorf("before it has expired: %v", r)
	}
	expired := func() bool {
		return bytes.Contains(s.Must(200, "GET", e2e.Channels+"/"+c.ID, nil).Body, []byte(`"expired":"100"`))
	}
	s.Eventually("the payment does not expire", expired)
	chain.Heal()
	if r := c.TryBuy(1); r.Status != 402 {
		t.Errorf("a further payment: %v", r)
	}
	other := chain.OpenOn(s, s.Payer(2), 8, 1000)
	for _, test := range []struct {
		label            string
		status           int
		code             string
		sequence, amount uint64
		of               *e2e.Channel
	}{
		{"a greater amount", 409, "micropayment_stale", 2, 101, c},
		{"a smaller amount", 409, "micropayment_stale", 2, 99, c},
		{"the same number", 409, "micropayment_stale", 1, 100, c},
		{"another channel", 400, "bad_parameter", 2, 100, other},
	} {
		payment := test.of.Payer.Sign(t, test.of.Number, test.sequence, test.amount).Base64()
		r := s.WantCode(test.status, test.code, "POST", e2e.Channels+"/"+c.ID+"/renew", e2e.AsJSON(t, map[string]any{"micropaymentUpdate": payment}))
		if test.code == "micropayment_stale" && e2e.Member(t, r, "storedMicropayment") == "" {
			t.Errorf("%s: %v", test.label, r)
		}
	}
	s.WantCode(404, "channel_not_found", "POST", e2e.Channels+"/unknown/renew", e2e.AsJSON(t, map[string]any{"micropaymentUpdate": c.Payer.Sign(t, c.Number, 2, 100).Base64()}))
	s.WantCode(400, "micropayment_malformed", "POST", e2e.Channels+"/"+c.ID+"/renew", []byte(`{"micropaymentUpdate": "AAAA"}`))
	s.WantCode(400, "bad_json", "POST", e2e.Channels+"/"+c.ID+"/renew", nil)

	renewal := e2e.AsJSON(t, map[string]any{"micropaymentUpdate": c.Payer.Sign(t, c.Number, 2, 100).Base64()})
	for range 2 {
		var state e2e.ChannelState
		s.Must(200, "POST", e2e.Channels+"/"+c.ID+"/renew", renewal).Decode(t, &state)
		if state.Accepted != "100" || state.SequenceNumber != "2" || len(state.Sessions) != 1 {
			t.Errorf("%+v", state)
		}
	}
	c.Sequence = 2
	c.Settled()
	chain.Collected(t, c.Number, 100)
	c.Buy(50)
	c.Settled()
}

// TestExpiredPaymentsAreBooked kills a server while a channel at its limit has a payment that the
// server has not booked yet. The payment expires before the server runs again, and the server books
// it. The channel sells on.
// Invariant 179.
func TestExpiredPaymentsAreBooked(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Dirty: true, Flags: []string{"--reads", "paid", "--unsettled-limit", "100"}})
	c := s.Open(s.Payer(1), 1000)
	terms := c.Payer.Terms
	s.Kill()
	store, err := sqlstore.OpenSQLite(filepath.Join(s.Data, "meta.db"), sqlstore.Options{})
	testenv.OK(t, err)
	m := c.Payer.Sign(t, c.Number, 1, 100, func(p *micropay.Payment) { p.Expiration = uint64(time.Now().Add(-time.Minute).Unix()) })
	_, err = store.Buy(t.Context(), ledger.Purchase{
		Offer: ledger.Offer{Payment: ledger.Payment{
			Sender: c.Payer.Signer.Address().String(), Receiver: terms.Receiver.String(), Asset: terms.Asset.String(), PaymentChannelID: int64(c.Number),
			Sequence: 1, Amount: 100, Proof: m.Bytes(), Expires: m.Expires(),
		}, Policy: ledger.Policy{UnsettledLimit: 100}},
		Price: 1, Session: ledger.Session{ID: "a-session-of-the-killed-server", Expires: time.Now().Add(time.Hour)},
	}, nil)
	testenv.OK(t, err)
	testenv.OK(t, store.Close())
	c.Sequence, c.Amount = 1, 100
	s.Restart()
	c.Settled()
	c.Buy(100)
	c.Settled()
}
