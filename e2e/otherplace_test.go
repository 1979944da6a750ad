package e2e

import (
	"strings"
	"testing"

	"sluice/internal/fullnode"
)

// TestChainIsNotLeftWhilePaymentsWait kills a server while a submission has no outcome yet, and
// starts it without its chain. The server refuses, because its ledger would count the payment as
// collected.
func TestChainIsNotLeftWhilePaymentsWait(t *testing.T) {
	t.Parallel()
	chain := startChain(t)
	o := chain.with(settleNow...)
	o.dirty = true
	s := start(t, o)
	c := chain.open(s, s.payer(1), 7, 1000)
	chain.Hold()
	c.buy(10)
	chain.AwaitRequests(fullnode.Submit, 1)
	s.kill()
	without := []string{"--reads", "paid", "--receiver", chain.receiver.Address().String()}
	r := sluiceRuns(t, append([]string{"serve", "--addr", "127.0.0.1:0", "--data", s.data}, without...)...)
	if r.code == 0 || !strings.Contains(r.stderr, "10 units over 1 channels by chain 4, receiver 0x") || !strings.Contains(r.stderr, "until sluice_settlements_waiting is 0") {
		t.Errorf("a start without the chain: %+v", r)
	}
	chain.Execute()
	s.restart()
	c.settled()
	s.stop()
	s.options.flags = without
	s.restart()
	if state := c.state(); state.Settled != "10" {
		t.Errorf("the channel is %+v", state)
	}
}
