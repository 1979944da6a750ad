package paychan_test

import (
	"context"
	"errors"
	"testing"

	"sluice/ledger"
	"sluice/paychan"
	"sluice/test/testenv"
)

// buying and reading are the two ways to spend a micropayment.
func (s *shop) spend() map[string]func(ledger.Payment) error {
	return map[string]func(ledger.Payment) error{
		"buy": func(p ledger.Payment) error {
			return testenv.Error(s.Buy(s.t.Context(), paychan.BuyOptions{Payment: p}, nil))
		},
		"read": func(p ledger.Payment) error { return testenv.Error(s.PayRead(s.t.Context(), p, 1, "")) },
	}
}

// Invariant 22.
func TestNotCovered(t *testing.T) {
	s, payer := newShop(t), newPayer(t, 1)
	c := s.open("", 1) // a refusal does not bind it
	refused := func(sequence, amount uint64, required, available int64) {
		t.Helper()
		want := &ledger.InsufficientFundsError{Required: required, Available: available}
		for _, spend := range s.spend() {
			s.unchanged(c.ID, want, func() error { return spend(s.paid(payer, 1, sequence, amount)) })
		}
	}
	refused(1, 2, 3, 2)
	refused(1, 1_001, 1_001, 1_000)
	s.buy(paychan.BuyOptions{Payment: s.paid(payer, 1, 1, 4)})
	refused(2, 5, 3, 2) // 1 and the credit of 1
	s.unchanged(c.ID, &ledger.InsufficientFundsError{Required: 12, Available: 11}, func() error {
		return testenv.Error(s.PayRead(t.Context(), s.paid(payer, 1, 2, 14), 4, ""))
	})
	// With a larger deposit the same micropayment is accepted, to the last unit.
	most := s.paid(payer, 1, 2, 1_001)
	testenv.OK(t, testenv.Error(s.Deposit(t.Context(), c.ID, 1, nil)))
	if got := s.buy(paychan.BuyOptions{Payment: most}); got.Total != 332 {
		t.Errorf("%+v", got)
	}
	s.audit()
}

// TestLive checks for which payments there is an open channel.
func TestLive(t *testing.T) {
	s, payer := newShop(t), newPayer(t, 1)
	s.open("", 1) // accepts any payer
	testenv.OK(t, testenv.Error(s.Close(t.Context(), s.open(payer.address(), 2).ID)))
	live := func(channel uint64, want error, label string) {
		t.Helper()
		testenv.Is(t, s.Live(t.Context(), s.paid(payer, channel, 1, 3)), want, "%s", label)
	}
	live(1, nil, "an open channel")
	live(3, ledger.ErrNoChannel, "no channel")
	s.clock.Advance(paychan.DefaultTTL)
	live(1, ledger.ErrChannelExpired, "an expired channel")
	live(2, ledger.ErrChannelClosed, "a closed channel, after its expiry")
}

func TestCancelledContextBuysNothing(t *testing.T) {
	s := newShop(t)
	payer := newPayer(t, 1)
	c := s.open(payer.address(), 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := s.paid(payer, 1, 1, 3)
	s.unchanged(c.ID, context.Canceled, func() error {
		return testenv.Error(s.Buy(ctx, paychan.BuyOptions{Payment: p}, nil))
	})
	s.unchanged(c.ID, context.Canceled, func() error { return testenv.Error(s.PayRead(ctx, p, 1, "")) })
}

// TestStats checks that only successes are counted.
func TestStats(t *testing.T) {
	s, p := newShop(t), newPayer(t, 1)
	c := s.open(p.address(), 1)
	s.buy(paychan.BuyOptions{Payment: s.paid(p, 1, 1, 10)})
	for range 2 { // the second is stale
		if _, err := s.PayRead(t.Context(), s.paid(p, 1, 2, 12), 1, ""); err != nil && !errors.Is(err, ledger.ErrStalePayment) {
			t.Error(err)
		}
	}
	testenv.Check(t, s.Settle(t.Context()))
	if got, want := s.Stats(), (paychan.Stats{Opened: 1, Purchases: 1, Reads: 1, Settled: 1, Verified: 3}); got != want {
		t.Errorf("counted %+v, want %+v (channel %s)", got, want, c.ID)
	}
}
