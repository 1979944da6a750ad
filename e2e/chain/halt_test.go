package chain

import (
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/fullnode"
)

// TestHaltedSettlingIsResumed lets the chain's contract keep other rules than the server assumes.
// The server sells and collects nothing, even after a restart, until sluice resume settling, and
// then without one.
// Invariants 125, 166.
func TestHaltedSettlingIsResumed(t *testing.T) {
	t.Parallel()
	chain := e2e.StartChain(t)
	s := e2e.Start(t, settleNow(chain, "--admin-addr", "127.0.0.1:0"))
	c, other := chain.OpenOn(s, s.Payer(1), 7, 1000), chain.OpenOn(s, s.Payer(2), 8, 1000)
	const reason = "the withdrawal of 10 units has not reduced the balance"
	halted := func(want string) {
		t.Helper()
		s.Eventually("sluice_settling_halted is not "+want, func() bool {
			return strings.Contains(s.MetricsOf(), "\nsluice_settling_halted "+want+"\n")
		})
	}
	refused := func() {
		t.Helper()
		r := s.WantCode(402, "channel_stopped", "POST", "/v1/sessions", e2e.PurchaseBody(t, other.Payer.Sign(t, other.Number, 1, 5).Base64(), ""))
		if !strings.Contains(string(r.Body), reason) {
			t.Errorf("a payment over another channel: %v", r)
		}
	}
	halted("0")
	chain.SetRule(fullnode.Rule{BalanceStays: true})
	c.Buy(10)
	halted("1")
	refused()
	if r := e2e.SluiceRuns(t, "check", "--books", "--data", s.Data); r.Code != 0 || !strings.Contains(r.Stdout, "Settling has halted") || !strings.Contains(r.Stdout, reason) {
		t.Errorf("audit: %+v", r)
	}

	s.Stop()
	chain.SetRule(fullnode.Rule{})
	s.Restart()
	halted("1")
	refused()
	s.Logged("until sluice resume settling")

	for _, says := range []string{"Settling is resumed.\n", "Settling has not halted.\n"} {
		if r := e2e.SluiceRuns(t, "resume", "settling", "--yes", "--data", s.Data); r.Code != 0 || !strings.HasSuffix(r.Stdout, says) {
			t.Errorf("resume: %+v, want %q", r, says)
		}
		halted("0")
		other.Buy(5)
		other.Settled()
	}
	chain.Collected(t, other.Number, 5, 5)
	if r := e2e.SluiceRuns(t, "check", "--books", "--data", s.Data); strings.Contains(r.Stdout, "halted") {
		t.Errorf("audit: %+v", r)
	}
}
