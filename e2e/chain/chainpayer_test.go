package chain

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	goclient "sluice/client"
	"sluice/e2e"
	"sluice/test/testenv"
)

// TestPayCommandOnAChain pays a server that collects on a chain. The command reports the missing
// flag before the channel is named, and buys more than the server sells at once. It also goes on
// with a new state file, when the user names the channel by its id.
// Invariant 155.
func TestPayCommandOnAChain(t *testing.T) {
	t.Parallel()
	chain := e2e.StartChain(t)
	s := e2e.Start(t, chain.With("--unsettled-limit", "1000").Tuned(e2e.Tuning{"StartingLimit": 10}))
	p := s.Payer(1)
	on := chain.Fund(p, 7, 500)
	dir := t.TempDir()
	account := e2e.SecretFile(t, strings.Repeat("01", 32)+"\n")
	server := []string{"--url", s.URL}
	own := func(state string) []string {
		return []string{"--account-file", account, "--state-file", filepath.Join(dir, state)}
	}
	pay := func(state string, more ...string) []string {
		return append(append(append([]string{"pay", "--max-price", "1", "--max-spend", "400"}, own(state)...), server...), more...)
	}
	e2e.Refuses(t, 4, "which is --payment-channel-id", pay("first")...)
	e2e.Refuses(t, 3, "open it there first", pay("first", "--payment-channel-id", "8")...)
	e2e.Refuses(t, 1, "--payment-channel-id names a channel", append([]string{"channel", "open", "--sender", p.Signer.Address().String()}, server...)...)

	r := e2e.SluiceRuns(t, pay("first", "--payment-channel-id", strconv.FormatUint(on.ID, 10), "--chunksets", "35")...)
	if r.Code != 0 || !strings.Contains(r.Stderr, "waiting until the server has collected earlier payments of 10 units") {
		t.Fatalf("pay: %+v", r)
	}
	if got := s.SessionState(strings.TrimSpace(r.Stdout)); got.ChunksetsTotal != 35 {
		t.Errorf("the session is %+v", got)
	}
	var bought struct{ SessionID, ChannelID, Spent string }
	if err := json.Unmarshal([]byte(e2e.Prints(t, pay("first", "--chunksets", "35", "--json")...)), &bought); err != nil || bought.Spent != "35" {
		t.Errorf("nothing more to buy: %+v, %v", bought, err)
	}
	e2e.Refuses(t, 4, "is known to the service already", pay("second", "--payment-channel-id", "7")...)
	var second struct{ SessionID, ChannelID, Spent string }
	text := e2e.Prints(t, pay("second", "--channel", bought.ChannelID, "--chunksets", "5", "--json")...)
	if err := json.Unmarshal([]byte(text), &second); err != nil || second.ChannelID != bought.ChannelID || second.Spent != "40" {
		t.Errorf("another state: %s, %v", text, err)
	}
	e2e.Refuses(t, 4, "sluice pay --new-channel closes that", pay("second", "--channel", "ANOTHER")...)

	c := &e2e.Channel{S: s, Payer: p, ID: bought.ChannelID, Number: on.ID}
	s.Must(200, "POST", e2e.Channels+"/"+c.ID+"/close", nil) // which collects the pending settlement
	c.Settled()
	if shown := e2e.Prints(t, append(append([]string{"channel", "renew"}, own("second")...), server...)...); !strings.Contains(shown, "unsettled      0") || strings.Contains(shown, "expired ") {
		t.Errorf("channel renew: %s", shown)
	}
	if shown := e2e.Prints(t, append([]string{"channel", "reconcile", bought.ChannelID}, server...)...); !strings.Contains(shown, "settled               40                    40\n") {
		t.Errorf("channel reconcile: %s", shown)
	}
	chain.Collected(t, on.ID, 10, 20, 10)
}

// TestGoClientOnAChain buys more with the Go client than a server that collects on a chain sells at
// once.
// Invariant 155.
func TestGoClientOnAChain(t *testing.T) {
	t.Parallel()
	chain := e2e.StartChain(t)
	s := e2e.Start(t, chain.With("--chunkset-price", "3", "--unsettled-limit", "1000").Tuned(e2e.Tuning{"StartingLimit": 9}))
	chain.Fund(s.Payer(1), 7, 500)
	c, _, file := e2e.NewGoClient(t, s.URL, "")
	p, err := e2e.GoPayer(t.Context(), c, file, func(o *goclient.PayerOptions) { o.Deposit, o.PaymentChannelID = 0, 7 })
	testenv.OK(t, err)
	if session, err := p.Ensure(t.Context(), 10); err != nil || session.ChunksetsLeft != 10 {
		t.Fatalf("session %+v, %v", session, err)
	}
	e2e.CheckGoPayer(t, s, p, 3, 0)
	ch, err := p.CloseChannel(t.Context())
	testenv.OK(t, err)
	(&e2e.Channel{S: s, ID: ch.ID}).Settled()
	chain.Collected(t, 7, 9, 18, 3)
}
