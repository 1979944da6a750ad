package e2e

import (
	"slices"
	"strings"
	"testing"

	"sluice/internal/fullnode"
)

// TestHaltedSettlingIsResumed lets the chain's contract keep other rules than the server assumes.
// The server sells and collects nothing, also after a restart, until the test starts it with
// --resume-settling.
func TestHaltedSettlingIsResumed(t *testing.T) {
	t.Parallel()
	chain := startChain(t)
	s := start(t, chain.with(slices.Concat(settleNow, []string{"--admin-addr", "127.0.0.1:0"})...))
	c, other := chain.open(s, s.payer(1), 7, 1000), chain.open(s, s.payer(2), 8, 1000)
	const reason = "the withdrawal of 10 units has not reduced the balance"
	halted := func(want string) {
		t.Helper()
		s.eventually("sluice_settling_halted is not "+want, func() bool {
			return strings.Contains(s.metricsOf(), "\nsluice_settling_halted "+want+"\n")
		})
	}
	refused := func() {
		t.Helper()
		r := s.wantCode(402, "channel_stopped", "POST", "/v1/sessions", purchaseBody(t, other.payer.sign(t, other.number, 1, 5).Base64(), ""))
		if !strings.Contains(string(r.body), reason) {
			t.Errorf("a payment over another channel: %v", r)
		}
	}
	halted("0")
	chain.SetRule(fullnode.Rule{BalanceStays: true})
	c.buy(10)
	halted("1")
	refused()
	if r := sluiceRuns(t, "audit", "--data", s.data); r.code != 0 || !strings.Contains(r.stdout, "Settling has halted") || !strings.Contains(r.stdout, reason) {
		t.Errorf("audit: %+v", r)
	}

	s.stop()
	chain.SetRule(fullnode.Rule{})
	s.restart()
	halted("1")
	refused()
	s.logged("until a node starts with --resume-settling")

	s.stop()
	s.options.flags = append(s.options.flags, "--resume-settling")
	for range 2 { // the second start has nothing to resume
		s.restart()
		halted("0")
		other.buy(5)
		other.settled()
		s.stop()
	}
	chain.collected(t, other.number, 5, 5)
	if r := sluiceRuns(t, "audit", "--data", s.data); strings.Contains(r.stdout, "halted") {
		t.Errorf("audit: %+v", r)
	}
}
