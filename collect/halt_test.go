package collect_test

import (
	"errors"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/ledger"
)

// TestOthersCannotHaltSettling changes the channel on the chain directly after it was collected, so
// that it differs from what the rules say. If no fullnode shows what the transaction itself did,
// that stops the channel at most.
func TestOthersCannotHaltSettling(t *testing.T) {
	topUp := func(c *contract) { c.deposit += 600 }
	end := func(c *contract) { c.gone = true }
	other := func(c *contract) { c.withdrawn, c.next = c.withdrawn+50, c.next+1 }
	for what, test := range map[string]struct {
		fullnode func(*fullnode)
		deposit  int64
		settled  int64
		stopped  string
	}{
		"a deposit of what was collected": {func(f *fullnode) { f.after = topUp }, 10_600, 600, ""},
		"a deposit of another amount, and a fullnode without history": {func(f *fullnode) {
			f.after, f.versions = func(c *contract) { c.deposit += 50 }, http.StatusGone
		}, 10_050, 600, ""},
		"the end of the channel": {func(f *fullnode) { f.after = end }, 0, 600, "the channel does not exist on the chain"},
		"another withdrawal":     {func(f *fullnode) { f.after = other }, 10_000, 650, ""},
		"a deposit, and a fullnode without history": {func(f *fullnode) { f.after, f.versions = topUp, http.StatusGone }, 10_600, 600,
			"the withdrawal of 600 units has not reduced the balance (no fullnode shows the state at the transaction: the fullnode refused the request: 410"},
		"a deposit, and a fullnode that ignores versions": {func(f *fullnode) { f.after, f.timeless = topUp, true }, 10_600, 600,
			"the withdrawal of 600 units has not reduced the balance (no fullnode shows the state at the transaction: the fullnode shows a later one)"},
		"the end of the channel, and a fullnode without history": {func(f *fullnode) { f.after, f.versions = end, http.StatusGone }, 0, 600,
			"the channel does not exist on the chain"},
		"another withdrawal, and a fullnode without history": {func(f *fullnode) { f.after, f.versions = other, http.StatusGone }, 10_000, 650, ""},
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.open(1, 10_000)
				test.fullnode(w.node)
				defer w.run()()
				w.mustPay(1, 1, 600)
				w.wait(10 * time.Second)
				w.notHalted()
				c := w.channel(1)
				if c.Deposit != test.deposit || c.Settled != test.settled || (c.Stopped == "") != (test.stopped == "") || !strings.Contains(c.Stopped, test.stopped) {
					t.Errorf("the channel is %+v", c)
				}
			})
		})
	}
}

// TestOthersCannotHideOtherRules lets a contract not reduce balances, and makes the recorded
// reading and the channel afterwards differ in another way than that rule explains.
func TestOthersCannotHideOtherRules(t *testing.T) {
	for what, hide := range map[string]func(*world, *contract){
		"a deposit of another amount": func(_ *world, c *contract) { c.deposit += 50 },
		"a reading after the submission": func(w *world, c *contract) {
			after := ledger.Reading{
				Deposit: int64(c.deposit + c.withdrawn), Withdrawn: int64(c.withdrawn), NextSequence: int64(c.next),
				Expires: time.Now().Add(time.Hour), ChainTime: time.Now(),
			}
			if _, err := w.store.RecordReading(w.t.Context(), "channel-00001", after); err != nil {
				w.t.Error(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.open(1, 10_000)
				w.node.untouched = true
				w.node.after = func(c *contract) { hide(w, c) }
				defer w.run()()
				w.mustPay(1, 1, 600)
				w.wait(10 * time.Second)
				if halt, err := w.store.Halted(t.Context()); err != nil || !strings.Contains(halt, "has not reduced the balance") {
					t.Errorf("halted: %q, %v", halt, err)
				}
			})
		})
	}
}

// TestGreatestSequenceDoesNotHaltSettling pays with the greatest sequence number that is accepted,
// after which the contract expects one that is not.
func TestGreatestSequenceDoesNotHaltSettling(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.open(1, 10_000)
		defer w.run()()
		w.mustPay(1, math.MaxInt64, 600)
		w.wait(10 * time.Second)
		w.settled(1, 600)
		w.notHalted()
	})
}

// TestLaggingFullnodes checks that a fullnode which has not executed yet what another one has is
// asked again.
func TestLaggingFullnodes(t *testing.T) {
	const behind = "the fullnode is behind"
	t.Run("a view before the submission", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.open(1, 10_000)
			w.node.past, w.node.behind = 3, 500*time.Millisecond
			defer w.run()()
			w.mustPay(1, 1, 600)
			w.wait(30 * time.Second)
			w.settled(1, 600)
			w.notHalted()
			if !w.reported(behind) || w.node.executed[1] != 1 {
				t.Errorf("executed %d times; reports: %v", w.node.executed[1], w.reports)
			}
		})
	})
	t.Run("a view before a deposit that was seen", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.open(1, 10_000)
			seen := ledger.Reading{Deposit: 10_050, NextSequence: 1, Expires: time.Now().Add(time.Hour), ChainTime: time.Now().Add(15 * time.Second)}
			if _, err := w.store.RecordReading(t.Context(), "channel-00001", seen); err != nil {
				t.Fatal(err)
			}
			defer w.run()()
			w.mustPay(1, 1, 600)
			w.wait(10 * time.Second)
			if c := w.channel(1); c.Submitted != 600 || !w.reported(behind) {
				t.Errorf("the outcome was recorded by an older reading: %+v; reports: %v", c, w.reports)
			}
			w.node.mu.Lock()
			w.node.channels[1].deposit = 10_050
			w.node.mu.Unlock()
			w.wait(20 * time.Second)
			w.settled(1, 600)
			w.notHalted()
		})
	})
	t.Run("a version that is not there yet", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.open(1, 10_000)
			w.node.after, w.node.versions = func(c *contract) { c.deposit += 600 }, http.StatusNotFound
			defer w.run()()
			w.mustPay(1, 1, 600)
			w.wait(20 * time.Second)
			w.notHalted()
			if c := w.channel(1); c.Submitted != 600 || !w.reported("reading the channel at the transaction") {
				t.Errorf("%+v; reports: %v", c, w.reports)
			}
			w.node.mu.Lock()
			w.node.versions = 0
			w.node.mu.Unlock()
			w.wait(10 * time.Second)
			w.settled(1, 600)
			w.notHalted()
		})
	})
}

// TestProofIsNotAwaitedForEver collects over a channel whose payer deposits, on a fullnode that
// always claims not to have reached the transaction's version.
func TestProofIsNotAwaitedForEver(t *testing.T) {
	for what, test := range map[string]struct {
		deposit uint64
		stopped string
	}{
		"a deposit of what was collected": {600, "compare the channel with the chain"},
		"a deposit of another amount":     {50, ""},
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.open(1, 10_000)
				w.node.after, w.node.versions = func(c *contract) { c.deposit += test.deposit }, http.StatusNotFound
				defer w.run()()
				w.mustPay(1, 1, 600)
				w.wait(9 * time.Minute)
				if c := w.channel(1); c.Submitted != 600 {
					t.Errorf("%+v", c)
				}
				w.wait(2 * time.Minute)
				w.settled(1, 600)
				w.notHalted()
				if c := w.channel(1); (c.Stopped == "") != (test.stopped == "") || !strings.Contains(c.Stopped, test.stopped) {
					t.Errorf("%+v", c)
				}
			})
		})
	}
}

func (w *world) notHalted() {
	w.t.Helper()
	if halt, err := w.store.Halted(w.t.Context()); halt != "" || err != nil {
		w.t.Errorf("halted: %q", errors.Join(errors.New(halt), err))
	}
}
