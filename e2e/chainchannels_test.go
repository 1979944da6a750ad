package e2e

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/fullnode"
	"sluice/micropay"
)

// TestChannelsOfTheChain opens, uses and closes channels that exist on the chain, and checks each
// refusal.
func TestChannelsOfTheChain(t *testing.T) {
	t.Parallel()
	chain := startChain(t)
	s := start(t, chain.with("--settle-at", "1000", "--unsettled-limit", "1000", "--starting-limit", "1000", "--max-settle-gas", "20000000", "--channel-refresh", "1s"))
	if r := s.must(200, "GET", "/v1/info", nil); !strings.Contains(string(r.body), `"settlement":"chain"`) {
		t.Errorf("/v1/info: %v", r)
	}
	p := s.payer(1)
	sender := p.signer.Address().String()
	on := chain.fund(p, 7, 500)

	for _, test := range []struct {
		what   string
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
		{"of another payer", 404, "channel_not_found", map[string]any{"userIdentity": s.payer(2).signer.Address().String(), "paymentChannelId": "7"}, "open it there first"},
		{"of another asset", 404, "channel_not_found", map[string]any{"userIdentity": sender, "paymentChannelId": "7", "asset": "0x77"}, "open it there first"},
	} {
		r := s.wantCode(test.status, test.code, "POST", channels, asJSON(t, test.body))
		if !strings.Contains(string(r.body), test.says) {
			t.Errorf("a channel %s: %s, want %q", test.what, r.body, test.says)
		}
	}
	named := asJSON(t, map[string]any{"userIdentity": sender, "paymentChannelId": strconv.FormatUint(on.ID, 10)})
	chain.Fail(fullnode.Fault{On: fullnode.View, Answer: fullnode.Cut})
	s.wantCode(503, "unavailable", "POST", channels, named)
	chain.Heal()
	c := s.opened(p, s.must(201, "POST", channels, named))
	if state := c.state(); state.Deposit != "500" || state.Accepted != "0" || state.State != "open" {
		t.Errorf("the channel is %+v", state)
	}
	s.wantCode(409, "channel_exists", "POST", channels, named)

	r := s.wantCode(409, "deposit_on_chain", "POST", channels+"/"+c.id+"/deposit", asJSON(t, map[string]any{"amount": "5"}))
	if !strings.Contains(string(r.body), "Deposit into the channel on the chain") {
		t.Errorf("a deposit: %s", r.body)
	}

	c.buy(10)
	buy := func(more uint64, change ...func(*micropay.Payment)) response {
		return s.do("POST", "/v1/sessions", purchaseBody(t, c.payer.sign(t, c.number, c.sequence+1, c.amount+more, change...).Base64(), ""))
	}
	gas := func(units, price uint64) func(*micropay.Payment) {
		return func(p *micropay.Payment) { p.MaxGas, p.GasPrice = units, price }
	}
	s.eventually("the gas price of the chain is not known", func() bool { return buy(0, gas(1000, 99)).status == 402 })
	for name, terms := range map[string]func(*micropay.Payment){
		"a price below that of the chain": gas(1000, 99), "more gas than allowed": gas(200_001, 100),
		"a product above 2^64": gas(1<<33, 1<<33),
	} {
		r := buy(5, terms)
		if r.status != 402 || member(t, r, "code") != "micropayment_refused" || member(t, r, "reason") != "gas" {
			t.Errorf("%s: %v", name, r)
		}
	}
	if r := buy(600); r.status != 402 || member(t, r, "code") != "insufficient_funds" {
		t.Errorf("above the deposit: %v", r)
	}
	on.Deposit = 800
	chain.Open(on)
	s.eventually("the deposit is not seen", func() bool { return buy(600).status == 201 })
	c.sequence, c.amount = c.sequence+1, c.amount+600
	if state := c.state(); state.Deposit != "800" || state.Accepted != "610" || state.Settled != "0" {
		t.Errorf("the channel is %+v", state)
	}

	// A close submits what is pending, which would otherwise wait for half its life.
	closed := s.must(200, "POST", channels+"/"+c.id+"/close", nil)
	if bytes.Contains(closed.body, []byte(`"refund"`)) {
		t.Errorf("the channel has a refund: %s", closed.body)
	}
	s.wantCode(410, "channel_closed", "POST", "/v1/sessions", purchaseBody(t, c.payer.sign(t, c.number, c.sequence+1, c.amount+1).Base64(), ""))
	if state := c.settled(); state.State != "closed" || state.Accepted != "610" {
		t.Errorf("the channel is %+v", state)
	}
	chain.collected(t, c.number, 610)
	var again channelState
	r = s.must(200, "POST", channels+"/"+c.id+"/close", nil)
	if r.decode(t, &again); again.Settled != "610" || again.Unsettled != "0" || bytes.Contains(r.body, []byte(`"refund"`)) {
		t.Errorf("a second close: %s", r.body)
	}
}
