package chain

import (
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/fullnode"
)

// TestChainIsNotLeftWhilePaymentsWait kills a server while a submission has no outcome yet, and
// starts it without its chain. The server refuses, because its ledger would count the payment as
// collected.
// Invariant 101.
func TestChainIsNotLeftWhilePaymentsWait(t *testing.T) {
	t.Parallel()
	chain := e2e.StartChain(t)
	o := settleNow(chain)
	o.Dirty = true
	s := e2e.Start(t, o)
	c := chain.OpenOn(s, s.Payer(1), 7, 1000)
	chain.Hold()
	c.Buy(10)
	chain.AwaitRequests(fullnode.Submit, 1)
	s.Kill()
	without := []string{"--reads", "paid", "--receiver", chain.Receiver.Address().String()}
	r := e2e.SluiceRuns(t, append([]string{"serve", "--addr", "127.0.0.1:0", "--data", s.Data}, without...)...)
	if r.Code == 0 || !strings.Contains(r.Stderr, "10 units over 1 channels by chain 4, receiver 0x") || !strings.Contains(r.Stderr, "until sluice_settlements_waiting is 0") {
		t.Errorf("a start without the chain: %+v", r)
	}
	chain.Execute()
	s.Restart()
	c.Settled()
	s.Stop()
	s.Options.Flags = without
	s.Restart()
	if state := c.State(); state.Settled != "10" {
		t.Errorf("the channel is %+v", state)
	}
}
