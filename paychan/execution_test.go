package paychan_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/ledger"
	"sluice/micropay"
	"sluice/paychan"
	"sluice/test/testenv"
)

// startingLimit sells 30 units before anything is collected.
func startingLimit(o *paychan.Options) { o.Chain.StartingLimit, o.UnsettledLimit = 30, 80 }

// pay pays for one chunkset by a payment with changes.
func (s *shop) pay(p payer, sequence, amount uint64, change ...func(*micropay.Payment)) error {
	s.t.Helper()
	payment, err := s.verify(p, sequence, amount, change...)
	if err == nil {
		_, err = s.PayRead(s.t.Context(), payment, 1, "")
	}
	return err
}

// verify signs and verifies a payment with changes over channel 1.
func (s *shop) verify(p payer, sequence, amount uint64, change ...func(*micropay.Payment)) (ledger.Payment, error) {
	s.t.Helper()
	m := promise(s.now(), 1, sequence, amount)
	for _, f := range change {
		f(&m)
	}
	return s.Verify(s.t.Context(), p.sign(s.t, m), nil)
}

func (s *shop) mustPay(p payer, sequence, amount uint64, change ...func(*micropay.Payment)) {
	s.t.Helper()
	testenv.OK(s.t, s.pay(p, sequence, amount, change...))
}

// wantReason fails the test unless a micropayment was refused for this reason.
func wantReason(t *testing.T, label string, err error, want micropay.Reason) {
	t.Helper()
	if bad, ok := errors.AsType[*micropay.Error](err); !ok || bad.Reason != want {
		t.Errorf("%s: %v, want the reason %s", label, err, want)
	}
}

// wantLimit fails the test unless a payment was refused for this selling limit.
func wantLimit(t *testing.T, label string, err error, want ledger.UnsettledLimitError) {
	t.Helper()
	if got, ok := errors.AsType[*ledger.UnsettledLimitError](err); !ok || *got != want {
		t.Errorf("%s: %v, want %v", label, err, &want)
	}
}

func gas(units, price uint64) func(*micropay.Payment) {
	return func(m *micropay.Payment) { m.MaxGas, m.GasPrice = units, price }
}

// TestEachFormIsSimulatedOnce checks that the first payment of each form is simulated, that one
// that the chain would not execute sells nothing, and that the stale and those above the deposit
// are not simulated.
// Invariant 176.
func TestEachFormIsSimulatedOnce(t *testing.T) {
	onChain(t, func(t *testing.T, s *shop, v *chainView, p payer) {
		c := s.openOnChain(p)
		simulated := func(label string, want int64) {
			t.Helper()
			testenv.Equal(t, v.simulations.Swap(0), want, "%s: simulations", label)
		}
		v.simulation = paychan.Simulation{VMStatus: "INVALID_AUTH_KEY"}
		wantReason(t, "a payment that cannot be executed", s.pay(p, 1, 3), micropay.ReasonExecution)
		simulated("a payment that cannot be executed", 1)
		if got := s.channel(c.ID); got.Accepted != 0 || got.Sequence != 0 {
			t.Errorf("%+v", got)
		}
		v.simulation = paychan.Simulation{VMStatus: "INSUFFICIENT_BALANCE_FOR_TRANSACTION_FEE"}
		s.mustPay(p, 1, 3)
		simulated("while the receiver cannot pay the gas", 1)
		wantLimit(t, "above the starting limit", s.pay(p, 2, 34), ledger.UnsettledLimitError{Limit: 30, Unsettled: 3})
		v.simulation = paychan.Simulation{Success: true, GasUsed: 12}
		v.simulations.Store(0)
		s.mustPay(p, 3, 6)
		s.mustPay(p, 4, 9)
		simulated("two payments of a form", 1)
		s.mustPay(p, 5, 12, gas(5000, 100))
		s.mustPay(p, 6, 15, gas(5000, 101))
		s.mustPay(p, 7, 18, gas(5000, 101))
		simulated("other gas, and another price", 2)
		testenv.Is(t, s.pay(p, 7, 21, gas(6000, 100)), ledger.ErrStalePayment, "a stale payment")
		testenv.Is(t, s.pay(p, 8, 200, gas(6000, 100)), ledger.ErrInsufficientFunds, "above the deposit")
		simulated("payments that are refused anyway", 0)
		if got := s.Stats(); got.Simulated != 3 || got.SimulationRefused != 1 || got.SimulationFailed != 0 {
			t.Errorf("%+v", got)
		}
	}, startingLimit)
}

// TestLeastGasIsWhatSimulationsNeeded checks that a simulation raises the least maximum gas, but
// not without bound.
// Invariant 176.
func TestLeastGasIsWhatSimulationsNeeded(t *testing.T) {
	onChain(t, func(t *testing.T, s *shop, v *chainView, p payer) {
		s.openOnChain(p)
		for i, test := range []struct{ used, least uint64 }{{2, paychan.MinGas}, {12, 12}, {9, 12}, {1 << 40, 10_000}} {
			v.simulation.GasUsed = test.used
			s.mustPay(p, uint64(i)+1, 3*(uint64(i)+1), gas(50_000+uint64(i), 100))
			if terms, ok := s.Terms(); !ok || terms.MinGas != test.least {
				t.Errorf("after a simulation that took %d: %+v, %t", test.used, terms, ok)
			}
		}
		wantReason(t, "less gas", s.pay(p, 9, 99, gas(9999, 100)), micropay.ReasonGas)
	})
}

// TestSimulationsOfAChannel checks that one payment over a channel is simulated at a time, that a
// refusal concerns only the payment that was simulated, and that payments wait for two seconds at
// most.
// Invariant 176.
func TestSimulationsOfAChannel(t *testing.T) {
	onChain(t, func(t *testing.T, s *shop, v *chainView, p payer) {
		s.openOnChain(p)
		release := make(chan struct{})
		v.simulates = func() (paychan.Simulation, error) {
			<-release
			return paychan.Simulation{VMStatus: "Move abort: ESTALE_SEQUENCE_NUMBER"}, nil
		}
		var payments sync.WaitGroup
		var first error
		payments.Go(func() { first = s.pay(p, 1, 3) })
		synctest.Wait()
		began := time.Now()
		second := s.pay(p, 2, 6)
		third := s.pay(p, 3, 9, gas(5000, 100))
		if waited := time.Since(began); waited > 2*time.Second {
			t.Errorf("two payments waited for %s", waited)
		}
		payments.Wait()
		close(release)
		if v.simulations.Load() != 1 || second != nil || third != nil || first != nil && !errors.Is(first, ledger.ErrStalePayment) {
			t.Errorf("%d simulations, and the payments: %v, %v, %v", v.simulations.Load(), first, second, third)
		}
		synctest.Wait()
		wantReason(t, "a payment after that", s.pay(p, 4, 12), micropay.ReasonExecution)
		time.Sleep(10 * time.Second)
	}, startingLimit)
}

// TestResultsOfOtherPayments checks that a payment that waited for another's simulation takes its
// result only if both have the same form, and that a refusal counts for the simulated payment
// alone.
func TestResultsOfOtherPayments(t *testing.T) {
	onChain(t, func(t *testing.T, s *shop, v *chainView, p payer) {
		c := s.openOnChain(p)
		s.mustPay(p, 1, 30)
		s.collect(c.ID, v) // 60 units are sold in a form that was simulated, and 30 in another form
		together := func(result paychan.Simulation, first, second func() error) (errs [2]error) {
			t.Helper()
			release := make(chan struct{})
			v.simulates = func() (paychan.Simulation, error) {
				<-release
				return result, nil
			}
			v.simulations.Store(0)
			var payments sync.WaitGroup
			payments.Go(func() { errs[0] = first() })
			synctest.Wait()
			payments.Go(func() { errs[1] = second() })
			synctest.Wait()
			close(release)
			payments.Wait()
			testenv.Equal(t, v.simulations.Load(), 1, "simulations")
			return errs
		}
		errs := together(paychan.Simulation{Success: true, GasUsed: 12},
			func() error { return s.pay(p, 2, 33, gas(5000, 100)) },
			func() error { return s.pay(p, 3, 75, gas(6000, 100)) })
		if limit, ok := errors.AsType[*ledger.UnsettledLimitError](errs[1]); errs[0] != nil || !ok || limit.Limit != 30 {
			t.Errorf("another form: %v, %v", errs[0], errs[1])
		}
		errs = together(paychan.Simulation{VMStatus: "Move abort: ESTALE_SEQUENCE_NUMBER"},
			func() error { return s.pay(p, 4, 36, gas(7000, 100)) },
			func() error { return s.pay(p, 5, 39, gas(7000, 100)) })
		if wantReason(t, "the payment that was simulated", errs[0], micropay.ReasonExecution); errs[1] != nil {
			t.Errorf("the payment that was not: %v", errs[1])
		}
	}, startingLimit)
}

// collect collects a channel's pending settlement.
func (s *shop) collect(id string, v *chainView) {
	s.t.Helper()
	sub := s.submit(id)
	v.reading.Withdrawn, v.reading.NextSequence = sub.Amount, sub.Sequence+1
	after := v.reading
	after.ChainTime = s.now()
	outcome := ledger.Outcome{State: ledger.Collected, Withdrawn: sub.Amount, Reading: after}
	testenv.OK(s.t, s.meta.EndSubmission(s.t.Context(), id, sub.Sequence, outcome))
}

// submit begins to collect a channel's pending settlement.
func (s *shop) submit(id string) ledger.Submission {
	s.t.Helper()
	due := s.pending()[0]
	sub := ledger.Submission{
		Channel: id, Sequence: due.Sequence, Amount: due.Amount, Expires: due.Expires, Body: []byte{1},
		Form: testenv.Must(micropay.Parse(due.Proof))(s.t).Form(),
	}
	testenv.OK(s.t, s.meta.BeginSubmission(s.t.Context(), sub))
	return sub
}

// TestAccountSequences checks that a payment that its sender's account has passed sells nothing,
// that the account is asked for once in two seconds, and that without the chain only the starting
// limit is sold.
// Invariant 176.
func TestAccountSequences(t *testing.T) {
	onChain(t, func(t *testing.T, s *shop, v *chainView, p payer) {
		c := s.openOnChain(p)
		plain := func(sequence uint64) func(*micropay.Payment) {
			return func(m *micropay.Payment) { m.Form, m.Nonce, m.AccountSequence = micropay.FormPlain, 0, sequence }
		}
		versioned := func(m *micropay.Payment) { m.Form, m.Nonce, m.AccountSequence = micropay.FormSequence, 0, 6 }
		v.accountSequence = 7
		wantReason(t, "the plain form", s.pay(p, 1, 3, plain(0)), micropay.ReasonAccountSequence)
		wantReason(t, "the versioned form", s.pay(p, 1, 3, versioned), micropay.ReasonAccountSequence)
		s.mustPay(p, 1, 3, plain(7))
		s.mustPay(p, 2, 6, plain(8))
		s.mustPay(p, 3, 9, plain(micropay.NoAccountSequence))
		s.mustPay(p, 4, 12)
		testenv.Equal(t, v.accounts.Swap(0), 1, "times that the account was asked for")
		if got := s.channel(c.ID); got.Accepted != 12 {
			t.Errorf("%+v", got)
		}
		v.accountSequence = 9
		time.Sleep(3 * time.Second)
		wantReason(t, "after another transaction of the account", s.pay(p, 5, 15, plain(8)), micropay.ReasonAccountSequence)
		s.mustPay(p, 5, 15, plain(9))
		s.collect(c.ID, v)
		v.fails = errors.New("no fullnode answers")
		time.Sleep(3 * time.Second)
		wantLimit(t, "above the starting limit without the chain", s.pay(p, 6, 46, plain(0)), ledger.UnsettledLimitError{Limit: 30})
		s.mustPay(p, 6, 45, plain(0))
	}, startingLimit)
}

// TestEndingPaymentsSellNothing checks that a payment, or its channel, must live long enough to be
// collected, by the chain's time.
// Invariant 174.
func TestEndingPaymentsSellNothing(t *testing.T) {
	onChain(t, func(t *testing.T, s *shop, v *chainView, p payer) {
		s.openOnChain(p)
		lives := func(d time.Duration) func(*micropay.Payment) {
			return func(m *micropay.Payment) { m.Expiration = uint64(s.now().Add(d).Unix()) }
		}
		s.mustPay(p, 1, 3, lives(10*time.Second))
		wantReason(t, "a payment that ends", s.pay(p, 2, 6, lives(9*time.Second)), micropay.ReasonExpired)
		v.ahead = 8 * time.Second
		wantReason(t, "a payment that ends by the chain's time", s.pay(p, 2, 6, lives(17*time.Second)), micropay.ReasonExpired)
		s.mustPay(p, 2, 6, lives(18*time.Second))
		v.ahead = -time.Hour
		wantReason(t, "a payment that ends by our time", s.pay(p, 3, 9, lives(9*time.Second)), micropay.ReasonExpired)
		v.ahead = 0

		v.reading.Expires = time.Now().Add(time.Minute)
		time.Sleep(31 * time.Second) // the channel is read again
		s.mustPay(p, 3, 9)
		time.Sleep(20 * time.Second)
		testenv.Is(t, s.pay(p, 4, 12), paychan.ErrChannelEnding, "a channel that ends")
		time.Sleep(3 * time.Second)
		v.reading.Expires = time.Now().Add(time.Hour)
		s.mustPay(p, 4, 12)
	})
}

// TestExtendedChannelsAreReadAgain checks that a channel that was extended on the chain sells after
// its former expiry.
// Invariant 168.
func TestExtendedChannelsAreReadAgain(t *testing.T) {
	onChain(t, func(t *testing.T, s *shop, v *chainView, p payer) {
		c := s.openOnChain(p)
		time.Sleep(2 * time.Hour)
		payment := s.paid(p, 1, 1, 3)
		testenv.Is(t, s.Live(t.Context(), payment), ledger.ErrChannelExpired, "an expired channel")
		testenv.Is(t, s.pay(p, 1, 3), ledger.ErrChannelExpired, "a payment over an expired channel")
		v.reading.Expires = time.Now().Add(time.Hour)
		time.Sleep(3 * time.Second)
		testenv.Is(t, s.Live(t.Context(), payment), nil, "an extended channel")
		time.Sleep(2 * time.Hour)
		v.reading.Expires = time.Now().Add(time.Hour)
		s.mustPay(p, 1, 3)
		if got := s.channel(c.ID); !got.Expires.Equal(v.reading.Expires) {
			t.Errorf("%+v", got)
		}
	})
}

// TestNothingIsSoldByAnotherClock checks that nothing is sold or renewed while the chain is more
// than ten seconds ahead of the clock, or while its time is not plausible, and that a chain that is
// behind changes nothing.
// Invariant 174.
func TestNothingIsSoldByAnotherClock(t *testing.T) {
	onChain(t, func(t *testing.T, s *shop, v *chainView, p payer) {
		c := s.openOnChain(p)
		payment := s.paid(p, 1, 1, 3)
		for _, test := range []struct {
			ahead time.Duration
			wrong error
		}{{ahead: 10*time.Second + 1}, {ahead: time.Minute}, {wrong: errors.New("a day ahead")}} {
			v.ahead, v.clock = test.ahead, test.wrong
			s.unchanged(c.ID, paychan.ErrClock, func() error { return s.pay(p, 1, 3) })
			for _, spend := range s.spend() {
				s.unchanged(c.ID, paychan.ErrClock, func() error { return spend(payment) })
			}
			s.unchanged(c.ID, paychan.ErrClock, func() error { return testenv.Error(s.Renew(t.Context(), c.ID, payment)) })
			testenv.Is(t, s.ClockAgrees(), paychan.ErrClock, "%+v", test)
		}
		v.clock = nil
		for i, ahead := range []time.Duration{10 * time.Second, 0, -time.Hour} {
			v.ahead = ahead
			s.mustPay(p, uint64(i)+1, 3*(uint64(i)+1))
		}
	})
}

// TestFeesAreComparedWithAmounts checks that a payment is refused if its gas is worth more than is
// ever collected together.
// Invariant 177.
func TestFeesAreComparedWithAmounts(t *testing.T) {
	worth := func(o *paychan.Options) {
		o.Chain.Worth = func(gas, price uint64) int64 { return int64(gas * price / 120) }
	}
	onChain(t, func(t *testing.T, s *shop, v *chainView, p payer) {
		s.openOnChain(p)
		wantReason(t, "worth 40 units, with a starting limit of 30", s.pay(p, 1, 3, gas(5000, 400)), micropay.ReasonUnprofitable)
		s.mustPay(p, 1, 3, gas(5000, 300))
		v.reading.Deposit = 200
		v.reading.Withdrawn, v.reading.NextSequence = 190, 5
		time.Sleep(31 * time.Second)
		wantReason(t, "worth 11 units, with 10 left of the deposit", s.pay(p, 6, 193, gas(5000, 110)), micropay.ReasonUnprofitable)
		s.mustPay(p, 6, 193, gas(5000, 100))
	}, startingLimit, worth)
}
