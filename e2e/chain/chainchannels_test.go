package chain

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/micropay"
	"sluice/test/fullnode"
)

// TestChannelsOfTheChain opens, uses and closes channels that exist on the chain, and checks each
// refusal.
// Invariant 168.
func TestChannelsOfTheChain(t *testing.T) {
	t.Parallel()
	chain := e2e.StartChain(t)
	s := e2e.Start(t, chain.With("--unsettled-limit", "1000").Tuned(e2e.Tuning{"SettleAt": 1000, "StartingLimit": 1000, "MaxFee": 20_000_000, "ChannelRefresh": time.Second}))
	if r := s.Must(200, "GET", "/v1/info", nil); !strings.Contains(string(r.Body), `"settlement":"chain"`) {
		t.Errorf("/v1/info: %v", r)
	}
	p := s.Payer(1)
	sender := p.Signer.Address().String()
	on := chain.Fund(p, 7, 500)

	for _, test := range []struct {
		label  string
		status int
		code   string
		body   map[string]any
		says   string
	}{
		{"with a deposit", 400, "bad_parameter", map[string]any{"userIdentity": sender, "paymentChannelId": "7", "deposit": "500"}, "deposit and expires are read from the chain"},
		{"with an expiry", 400, "bad_parameter", map[string]any{"userIdentity": sender, "paymentChannelId": "7", "expires": time.Now().Add(time.Hour).Format(time.RFC3339)}, "deposit and expires are read from the chain"},
		{"without a number", 400, "bad_parameter", map[string]any{"userIdentity": sender}, "userIdentity and paymentChannelId are required"},
		{"without a payer", 400, "bad_parameter", map[string]any{"paymentChannelId": "7"}, "userIdentity and paymentChannelId are required"},
		{"with nothing", 400, "bad_parameter", map[string]any{}, "userIdentity and paymentChannelId are required"},
		{"that does not exist", 404, "channel_not_found", map[string]any{"userIdentity": sender, "paymentChannelId": "8"}, "open it there first"},
		{"of another payer", 404, "channel_not_found", map[string]any{"userIdentity": s.Payer(2).Signer.Address().String(), "paymentChannelId": "7"}, "open it there first"},
		{"of another asset", 404, "channel_not_found", map[string]any{"userIdentity": sender, "paymentChannelId": "7", "asset": "0x77"}, "open it there first"},
	} {
		r := s.WantCode(test.status, test.code, "POST", e2e.Channels, e2e.AsJSON(t, test.body))
		if !strings.Contains(string(r.Body), test.says) {
			t.Errorf("a channel %s: %s, want %q", test.label, r.Body, test.says)
		}
	}
	named := e2e.AsJSON(t, map[string]any{"userIdentity": sender, "paymentChannelId": strconv.FormatUint(on.ID, 10)})
	chain.Fail(fullnode.Fault{On: fullnode.View, Answer: fullnode.Cut})
	s.WantCode(503, "unavailable", "POST", e2e.Channels, named)
	chain.Heal()
	c := s.Opened(p, s.Must(201, "POST", e2e.Channels, named))
	if state := c.State(); state.Deposit != "500" || state.Accepted != "0" || state.State != "open" {
		t.Errorf("the channel is %+v", state)
	}
	s.WantCode(409, "channel_exists", "POST", e2e.Channels, named)

	r := s.WantCode(409, "deposit_on_chain", "POST", e2e.Channels+"/"+c.ID+"/deposit", e2e.AsJSON(t, map[string]any{"amount": "5"}))
	if !strings.Contains(string(r.Body), "Deposit into the channel on the chain") {
		t.Errorf("a deposit: %s", r.Body)
	}

	c.Buy(10)
	s.Eventually("the gas price of the chain is not known", func() bool { return c.TryBuy(0, gasOf(1000, 99)).Status == 402 })
	for name, terms := range map[string]func(*micropay.Payment){
		"a price below that of the chain": gasOf(1000, 99), "more gas than allowed": gasOf(200_001, 100),
		"a product above 2^64": gasOf(1<<33, 1<<33),
	} {
		c.Refuses(name, "gas", terms)
	}
	if r := c.TryBuy(600); r.Status != 402 || e2e.Member(t, r, "code") != "insufficient_funds" {
		t.Errorf("above the deposit: %v", r)
	}
	on.Deposit = 800
	chain.Open(on)
	s.Eventually("the deposit is not seen", func() bool { return c.TryBuy(600).Status == 201 })
	if state := c.State(); state.Deposit != "800" || state.Accepted != "610" || state.Settled != "0" {
		t.Errorf("the channel is %+v", state)
	}

	// A close submits the pending settlement, which would otherwise wait for half its life.
	closed := s.Must(200, "POST", e2e.Channels+"/"+c.ID+"/close", nil)
	if bytes.Contains(closed.Body, []byte(`"refund"`)) {
		t.Errorf("the channel has a refund: %s", closed.Body)
	}
	s.WantCode(410, "channel_closed", "POST", "/v1/sessions", e2e.PurchaseBody(t, c.Payer.Sign(t, c.Number, c.Sequence+1, c.Amount+1).Base64(), ""))
	if state := c.Settled(); state.State != "closed" || state.Accepted != "610" {
		t.Errorf("the channel is %+v", state)
	}
	chain.Collected(t, c.Number, 610)
	var again e2e.ChannelState
	r = s.Must(200, "POST", e2e.Channels+"/"+c.ID+"/close", nil)
	if r.Decode(t, &again); again.Settled != "610" || again.Unsettled != "0" || bytes.Contains(r.Body, []byte(`"refund"`)) {
		t.Errorf("a second close: %s", r.Body)
	}
}
