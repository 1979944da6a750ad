package paychan_test

import (
	"sync"
	"testing"
	"time"

	"sluice/database"
	"sluice/ledger"
	"sluice/test/testenv"
)

// TestFund checks which channel gets an amount: the sender's first from 1 that is open or was never
// opened, or the one that is named.
// Invariant 78.
func TestFund(t *testing.T) {
	s := newShop(t)
	alice, bob := newPayer(t, 1).address(), newPayer(t, 2).address()
	fund := func(sender string, amount, number, wantNumber, wantDeposit int64, wantOpened bool) ledger.Channel {
		t.Helper()
		c, opened, err := s.Fund(t.Context(), sender, amount, number)
		if err != nil || opened != wantOpened || c.PaymentChannelID != wantNumber || c.Deposit != wantDeposit || c.Sender != sender {
			t.Errorf("Fund returns %+v, opened %t, %v; want channel %d with %d units, opened %t", c, opened, err, wantNumber, wantDeposit, wantOpened)
		}
		return c
	}
	first := fund(alice, 10, 0, 1, 10, true)
	fund(alice, 5, 0, 1, 15, false)
	fund(bob, 7, 0, 1, 7, true)
	fund(alice, 3, 9, 9, 3, true)
	fund(alice, 4, 9, 9, 7, false)
	testenv.OK(t, testenv.Error(s.Close(t.Context(), first.ID)))
	fund(alice, 20, 0, 2, 20, true)
	refused := func(label string, amount, number int64, want error) {
		t.Helper()
		_, _, err := s.Fund(t.Context(), alice, amount, number)
		testenv.Is(t, err, want, "%s", label)
	}
	refused("a closed channel that is named", 1, 1, ledger.ErrChannelClosed)
	s.open("", 3) // for the first payer that uses it
	s.clock.Advance(s.TTL() + time.Second)
	fund(alice, 6, 0, 4, 6, true) // 1 is closed, 2 has expired, 3 is not the sender's
	refused("a channel without a sender", 1, 3, database.ErrExists)
	fund(alice, 1<<62, 4, 4, 1<<62+6, false)
	refused("more than a deposit can be", 1<<62, 4, ledger.ErrAmountOverflow)
}

// TestConcurrentFunds checks that concurrent calls open one channel, and that each amount is added
// once.
// Invariant 78.
func TestConcurrentFunds(t *testing.T) {
	s := newShop(t)
	alice := newPayer(t, 1).address()
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for range 5 {
				if _, _, err := s.Fund(t.Context(), alice, 1, 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	c, opened, err := s.Fund(t.Context(), alice, 1, 0)
	if err != nil || opened || c.PaymentChannelID != 1 || c.Deposit != 41 {
		t.Errorf("%+v, opened %t, %v", c, opened, err)
	}
}
