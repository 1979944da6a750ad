package collect

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/ledger"
	"sluice/test/testenv"
)

// TestOthersCannotHaltSettling changes the channel on the chain directly after it was collected, so
// that it contradicts the rules. If no fullnode shows the transaction's own effect, that stops the
// channel at most.
// Invariant 173.
func TestOthersCannotHaltSettling(t *testing.T) {
	topUp := func(c *contract) { c.deposit += 600 }
	end := func(c *contract) { c.gone = true }
	other := func(c *contract) { c.withdrawn, c.next = c.withdrawn+50, c.next+1 }
	for label, test := range map[string]struct {
		fullnode func(*memoryNode)
		deposit  int64
		settled  int64
		stopped  string
	}{
		"a deposit of the collected amount": {func(f *memoryNode) { f.after = topUp }, 10_600, 600, ""},
		"a deposit of another amount, and a fullnode without history": {func(f *memoryNode) {
			f.after, f.versions = func(c *contract) { c.deposit += 50 }, http.StatusGone
		}, 10_050, 600, ""},
		"the end of the channel": {func(f *memoryNode) { f.after = end }, 0, 600, "the channel does not exist on the chain"},
		"another withdrawal":     {func(f *memoryNode) { f.after = other }, 10_000, 650, ""},
		"a deposit, and a fullnode without history": {func(f *memoryNode) { f.after, f.versions = topUp, http.StatusGone }, 10_600, 600,
			"the withdrawal of 600 units has not reduced the balance (no fullnode shows the state at the transaction: the fullnode refused the request: 410"},
		"a deposit, and a fullnode that ignores versions": {func(f *memoryNode) { f.after, f.timeless = topUp, true }, 10_600, 600,
			"the withdrawal of 600 units has not reduced the balance (no fullnode shows the state at the transaction: the fullnode shows a later one)"},
		"the end of the channel, and a fullnode without history": {func(f *memoryNode) { f.after, f.versions = end, http.StatusGone }, 0, 600,
			"the channel does not exist on the chain"},
		"another withdrawal, and a fullnode without history": {func(f *memoryNode) { f.after, f.versions = other, http.StatusGone }, 10_000, 650, ""},
	} {
		t.Run(label, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				test.fullnode(w.node)
				c := w.paidOne(10 * time.Second).state()
				w.wantHalt("")
				if c.Deposit != test.deposit || c.Settled != test.settled || (c.Stopped == "") != (test.stopped == "") || !strings.Contains(c.Stopped, test.stopped) {
					t.Errorf("the channel is %+v", c)
				}
			})
		})
	}
}

// TestOthersCannotHideOtherRules lets a contract not reduce balances, and makes the recorded
// reading and the channel afterwards differ in another way than that rule explains.
// Invariant 173.
func TestOthersCannotHideOtherRules(t *testing.T) {
	for label, hide := range map[string]func(*world, *contract){
		"a deposit of another amount": func(_ *world, c *contract) { c.deposit += 50 },
		"a reading after the submission": func(w *world, c *contract) {
			after := ledger.Reading{
				Deposit: int64(c.deposit + c.withdrawn), Withdrawn: int64(c.withdrawn), NextSequence: int64(c.next),
				Expires: time.Now().Add(time.Hour), ChainTime: time.Now(),
			}
			testenv.Check(w.t, testenv.Error(w.store.RecordReading(w.t.Context(), "channel1", after)))
		},
	} {
		t.Run(label, func(t *testing.T) {
			inWorld(t, func(_ *testing.T, w *world) {
				w.node.untouched = true
				w.node.after = func(c *contract) { hide(w, c) }
				w.paidOne(10 * time.Second)
				w.wantHalt("has not reduced the balance")
			})
		})
	}
}

// TestGreatestSequenceDoesNotHaltSettling pays with the greatest sequence number that is accepted,
// after which the contract expects one that is not.
// Invariant 173.
func TestGreatestSequenceDoesNotHaltSettling(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		c := w.open(1)
		c.sequence = math.MaxInt64 - 1
		w.start()
		c.offer(600)
		w.wait(10 * time.Second)
		w.wantSettled(c, 600)
		w.wantHalt("")
	})
}

// TestLaggingFullnodes checks that a fullnode which has not executed yet a transaction that another
// has is asked again.
// Invariant 173.
func TestLaggingFullnodes(t *testing.T) {
	const behind = "the fullnode is behind"
	t.Run("a view before the submission", func(t *testing.T) {
		inWorld(t, func(_ *testing.T, w *world) {
			w.node.past, w.node.behind = 3, 500*time.Millisecond
			c := w.settlesOne(30 * time.Second)
			w.wantHalt("")
			w.wantReport(behind)
			w.wantExecuted(c, 1)
		})
	})
	t.Run("a view before a deposit that was seen", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			c := w.open(1)
			seen := ledger.Reading{Deposit: deposit + 50, NextSequence: 1, Expires: time.Now().Add(time.Hour), ChainTime: time.Now().Add(15 * time.Second)}
			testenv.OK(t, testenv.Error(w.store.RecordReading(t.Context(), c.id, seen)))
			w.start()
			c.offer(600)
			w.wait(10 * time.Second)
			testenv.Equal(t, c.state().Submitted, 600, "in flight, while the readings are older")
			w.wantReport(behind)
			w.node.mu.Lock()
			w.node.channels[1].deposit = deposit + 50
			w.node.mu.Unlock()
			w.wait(20 * time.Second)
			w.wantSettled(c, 600)
			w.wantHalt("")
		})
	})
	t.Run("a version that is not there yet", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.node.after, w.node.versions = func(c *contract) { c.deposit += 600 }, http.StatusNotFound
			c := w.paidOne(20 * time.Second)
			w.wantHalt("")
			testenv.Equal(t, c.state().Submitted, 600, "in flight, without a proof")
			w.wantReport("reading the channel at the transaction")
			w.node.mu.Lock()
			w.node.versions = 0
			w.node.mu.Unlock()
			w.wait(10 * time.Second)
			w.wantSettled(c, 600)
			w.wantHalt("")
		})
	})
}

// TestProofIsNotAwaitedForEver collects over a channel whose payer deposits, on a fullnode that
// always claims not to have reached the transaction's version.
// Invariant 173.
func TestProofIsNotAwaitedForEver(t *testing.T) {
	for label, test := range map[string]struct {
		deposit uint64
		stopped string
	}{
		"a deposit of the collected amount": {600, "compare the channel with the chain"},
		"a deposit of another amount":       {50, ""},
	} {
		t.Run(label, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.node.after, w.node.versions = func(c *contract) { c.deposit += test.deposit }, http.StatusNotFound
				c := w.paidOne(9 * time.Minute)
				testenv.Equal(t, c.state().Submitted, 600, "in flight, without a proof")
				w.wait(2 * time.Minute)
				w.wantSettled(c, 600)
				w.wantHalt("")
				if state := c.state(); (state.Stopped == "") != (test.stopped == "") || !strings.Contains(state.Stopped, test.stopped) {
					t.Errorf("%+v", state)
				}
			})
		})
	}
}
