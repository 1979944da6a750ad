package collect

import (
	"testing"
	"time"
)

// In these tests a submission is expected to cost 1,000 units until one was measured. It uses 7
// units of gas, which cost 7 units of the asset.
const coinPrice = 1_000_000

// TestPaymentsPayForTheirFee checks that a payment that does not pay for its fee waits for more,
// and how much is counted as waiting.
// Invariant 178.
func TestPaymentsPayForTheirFee(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opt.CoinPrice = coinPrice
		c := w.paidOne(10 * time.Second) // is due, and does not pay
		w.wantSettled(c, 0)
		c.offer(400)
		w.wait(5 * time.Second)
		w.wantSettled(c, 1_000)
		if s := w.last.Stats(); s.AmountCollected != 1_000 || s.GasSpent != 700 || s.Collected != 1 || s.Postponed == 0 {
			t.Errorf("%+v", s)
		}
		c.offer(500) // the gas is measured now
		w.wait(5 * time.Second)
		w.wantSettled(c, 1_500)
		if s := w.last.Stats(); s.AmountCollected != 1_500 || s.GasSpent != 1_400 {
			t.Errorf("%+v", s)
		}
		c.offer(5) // do not pay for 7
		w.wait(40 * time.Second)
		w.wantSettled(c, 1_500)
	})
}

// TestUnprofitablePaymentIsLeft checks that a payment that never pays for its fee is not submitted,
// costs no repeated work, and is included in a renewal or the next payment.
// Invariant 178.
func TestUnprofitablePaymentIsLeft(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opt.CoinPrice = coinPrice
		c := w.paidOne(2 * time.Minute)
		if state, s := c.state(), w.last.Stats(); len(w.node.count) > 0 || state.Stopped != "" || state.Expired != 600 || s.Postponed != 2 || len(w.errors()) > 0 {
			t.Errorf("%d submissions; %+v; %+v; reports: %v", len(w.node.count), s, state, w.errors())
		}
		c.offer(400)
		w.wait(5 * time.Second)
		w.wantSettled(c, 1_000)
	})
}

// TestLastChance checks that a payment that did not pay for its fee is compared again shortly
// before it expires, on a chain that is ahead.
// Invariant 178.
func TestLastChance(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.opt.CoinPrice = coinPrice
		w.node.late = 20 * time.Second
		c, other := w.open(1), w.open(2)
		w.start()
		w.wait(2 * time.Second) // the chain is known to be ahead
		c.offer(600)
		w.wait(5 * time.Second)
		other.offer(1_000) // this measures the gas
		w.wait(10 * time.Second)
		w.wantSettled(other, 1_000)
		w.wantSettled(c, 0)
		w.wait(9 * time.Second) // 24 s have passed, and by the chain's time it expires in 16 s
		w.wantSettled(c, 0)
		w.wait(5 * time.Second)
		w.wantSettled(c, 600)
	})
}

// TestFeesAreNotComparedWithoutAPrice collects a payment that does not pay for its fee.
// Invariant 178.
func TestFeesAreNotComparedWithoutAPrice(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) { w.settlesOne(5 * time.Second) })
}
