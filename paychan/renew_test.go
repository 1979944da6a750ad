package paychan_test

import (
	"errors"
	"testing"
	"time"

	"sluice/database"
	"sluice/ledger"
	"sluice/micropay"
	"sluice/paychan"
	"sluice/test/testenv"
)

// renew renews the newest payment over a channel by a payment with changes.
func (s *shop) renew(id string, p payer, sequence, amount uint64, change ...func(*micropay.Payment)) error {
	s.t.Helper()
	payment, err := s.verify(p, sequence, amount, change...)
	if err == nil {
		_, err = s.Renew(s.t.Context(), id, payment)
	}
	return err
}

// TestRenew lets a payment expire over a channel at its limit. Only a renewal brings the channel
// back. It sells nothing and can be repeated.
// Invariant 179.
func TestRenew(t *testing.T) {
	onChain(t, func(t *testing.T, s *shop, v *chainView, p payer) {
		c := s.openOnChain(p)
		if err := s.renew(c.ID, p, 1, 0); !errors.Is(err, ledger.ErrStalePayment) && !errors.Is(err, ledger.ErrNothingExpired) {
			t.Errorf("before a payment: %v", err)
		}
		s.mustPay(p, 1, 30)
		s.unchanged(c.ID, ledger.ErrNothingExpired, func() error { return s.renew(c.ID, p, 2, 30) })
		time.Sleep(time.Minute)
		wantLimit(t, "a payment over the channel", s.pay(p, 2, 33), ledger.UnsettledLimitError{Limit: 30, Unsettled: 30, Expired: 30})
		if got := s.channel(c.ID); got.Expired != 30 {
			t.Errorf("%+v", got)
		}
		stored := &ledger.StaleError{Stored: s.channel(c.ID).Proof}
		for label, test := range map[string]struct{ sequence, amount uint64 }{
			"the same number": {1, 30}, "another amount": {2, 33}, "a smaller amount": {2, 29},
		} {
			s.unchanged(c.ID, stored, func() error { return s.renew(c.ID, p, test.sequence, test.amount) })
			if t.Failed() {
				t.Fatal(label)
			}
		}
		another := func(m *micropay.Payment) { m.PaymentChannelID = 2 }
		testenv.Is(t, s.renew(c.ID, newPayer(t, 2), 2, 30), paychan.ErrOtherChannel, "by another payer")
		testenv.Is(t, s.renew(c.ID, p, 2, 30, another), paychan.ErrOtherChannel, "over another channel")
		testenv.Is(t, s.renew("unknown", p, 2, 30), database.ErrNotFound, "of an unknown channel")
		v.simulation = paychan.Simulation{VMStatus: "Out of gas"}
		wantReason(t, "one that cannot be executed", s.renew(c.ID, p, 2, 30, gas(1000, 100)), micropay.ReasonExecution)
		v.simulation = paychan.Simulation{Success: true}

		payment := s.paid(p, 1, 2, 30)
		for range 2 {
			renewed, err := s.Renew(t.Context(), c.ID, payment)
			if err != nil || renewed.Sequence != 2 || renewed.Accepted != 30 || renewed.Credit != s.channel(c.ID).Credit || renewed.Expired != 0 {
				t.Errorf("%+v, %v", renewed, err)
			}
		}
		wantLimit(t, "before it is collected", s.pay(p, 3, 33), ledger.UnsettledLimitError{Limit: 30, Unsettled: 30})
		s.collect(c.ID, v)
		s.mustPay(p, 3, 33)
	}, startingLimit)
}

// TestRenewalOutlivesAnExpiredSubmission checks that a channel with an expired submission sells
// again when its renewal was collected.
// Invariant 179.
func TestRenewalOutlivesAnExpiredSubmission(t *testing.T) {
	onChain(t, func(t *testing.T, s *shop, v *chainView, p payer) {
		c := s.openOnChain(p)
		s.mustPay(p, 1, 10)
		s.submit(c.ID)
		testenv.Is(t, s.renew(c.ID, p, 2, 10), ledger.ErrNothingExpired, "while it is in flight")
		time.Sleep(time.Minute)
		after := v.reading
		after.ChainTime = s.now()
		testenv.OK(t, s.meta.EndSubmission(t.Context(), c.ID, 1, ledger.Outcome{State: ledger.Expired, Reading: after}))
		testenv.Is(t, s.pay(p, 2, 13), ledger.ErrChannelStopped, "before the renewal")
		testenv.OK(t, s.renew(c.ID, p, 2, 10))
		s.collect(c.ID, v)
		s.mustPay(p, 3, 13)
	})
}

// TestReconcile compares a channel with the chain, and records the reading only if that is
// requested.
// Invariant 180.
func TestReconcile(t *testing.T) {
	onChain(t, func(t *testing.T, s *shop, v *chainView, p payer) {
		c := s.openOnChain(p)
		s.mustPay(p, 1, 10)
		v.reading.Withdrawn, v.reading.NextSequence = 25, 4
		time.Sleep(time.Second)
		shown, err := s.Reconcile(t.Context(), c.ID, false)
		if err != nil || shown.Books.Accepted != 10 || shown.Chain.Withdrawn != 25 || shown.After != nil || s.channel(c.ID).Accepted != 10 {
			t.Errorf("%+v, %v", shown, err)
		}
		written, err := s.Reconcile(t.Context(), c.ID, true)
		if err != nil || written.Books.Settled != 0 || written.After == nil || written.After.Settled != 25 || written.After.Accepted != 10 || written.After.Credit != c.Credit+s.channel(c.ID).Credit {
			t.Errorf("%+v, %v", written, err)
		}
		if got := s.channel(c.ID); got.Settled != 25 || got.Elsewhere != 25 {
			t.Errorf("%+v", got)
		}
		v.reading.Withdrawn, v.reading.NextSequence = 4, 2 // the fullnode has lied
		time.Sleep(time.Second)
		mended, err := s.Reconcile(t.Context(), c.ID, true)
		if err != nil || mended.After.Settled != 4 || mended.After.Accepted != 10 || s.channel(c.ID).Expired != 6 {
			t.Errorf("%+v, %v", mended, err)
		}
		reconcile := func(id string) error { return testenv.Error(s.Reconcile(t.Context(), id, true)) }
		testenv.Is(t, reconcile("unknown"), database.ErrNotFound, "an unknown channel")
		v.fails = errors.New("no fullnode answers")
		testenv.Is(t, reconcile(c.ID), paychan.ErrChain, "without a fullnode")
	})
	err := testenv.Error(newShop(t).Reconcile(t.Context(), "any", false))
	testenv.Is(t, err, paychan.ErrNoChain, "without a chain")
}
