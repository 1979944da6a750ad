package collect_test

import (
	"testing"
	"time"
)

// In these tests a submission is expected to cost 1,000 units until one was measured. It uses 7
// units of gas, which cost 7 units of the asset.
const coinPrice = 1_000_000

// TestPaymentsPayForTheirFee checks that what does not pay for its fee waits for more, and how much
// of it is counted.
func TestPaymentsPayForTheirFee(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.price = coinPrice
		w.open(1, 10_000)
		defer w.run()()
		w.mustPay(1, 1, 600) // is due, and does not pay
		w.wait(10 * time.Second)
		w.settled(1, 0)
		w.mustPay(1, 2, 1_000)
		w.wait(5 * time.Second)
		w.settled(1, 1_000)
		if s := w.last.Stats(); s.AmountCollected != 1_000 || s.GasSpent != 700 || s.Collected != 1 || s.Postponed == 0 {
			t.Errorf("%+v", s)
		}
		w.mustPay(1, 3, 1_500) // the gas is measured now
		w.wait(5 * time.Second)
		w.settled(1, 1_500)
		if s := w.last.Stats(); s.AmountCollected != 1_500 || s.GasSpent != 1_400 {
			t.Errorf("%+v", s)
		}
		w.mustPay(1, 4, 1_505) // 5 units more do not pay for 7
		w.wait(40 * time.Second)
		w.settled(1, 1_500)
	})
}

// TestUnprofitablePaymentIsLeft checks that a payment that never pays for its fee is not submitted,
// costs no repeated work, and is included in a renewal or the next payment.
func TestUnprofitablePaymentIsLeft(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.price = coinPrice
		w.open(1, 10_000)
		defer w.run()()
		w.mustPay(1, 1, 600)
		w.wait(2 * time.Minute)
		if c, s := w.channel(1), w.last.Stats(); len(w.node.count) > 0 || c.Stopped != "" || c.Expired != 600 || s.Postponed != 2 || len(w.reports) > 0 {
			t.Errorf("%d submissions; %+v; %+v; reports: %v", len(w.node.count), s, c, w.reports)
		}
		w.mustPay(1, 2, 1_000)
		w.wait(5 * time.Second)
		w.settled(1, 1_000)
	})
}

// TestLastChance checks that what did not pay for its fee is compared again shortly before it
// expires, on a chain that is ahead.
func TestLastChance(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.price = coinPrice
		w.node.late = 20 * time.Second
		w.open(1, 10_000)
		w.open(2, 10_000)
		defer w.run()()
		w.wait(2 * time.Second) // the chain is known to be ahead
		w.mustPay(1, 1, 600)
		w.wait(5 * time.Second)
		w.mustPay(2, 1, 1_000) // this measures the gas
		w.wait(10 * time.Second)
		w.settled(2, 1_000)
		w.settled(1, 0)
		w.wait(9 * time.Second) // 24 s have passed, and by the chain's time it expires in 16 s
		w.settled(1, 0)
		w.wait(5 * time.Second)
		w.settled(1, 600)
	})
}

// TestFeesAreNotComparedWithoutAPrice collects what does not pay for its fee.
func TestFeesAreNotComparedWithoutAPrice(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) { w.settlesOne(5 * time.Second) })
}
