package paychan_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"sluice/ledger"
	"sluice/micropay"
	"sluice/paychan"
	"sluice/test/testenv"
)

// chainView is the one channel as a fullnode shows it.
type chainView struct {
	reading ledger.Reading
	fails   error
	hangs   bool
	reads   atomic.Int64

	simulation      paychan.Simulation
	simulates       func() (paychan.Simulation, error) // nil: simulation
	simulations     atomic.Int64
	accountSequence uint64
	accounts        atomic.Int64
	ahead           time.Duration
	clock           error
	priceless       error // when gas prices are asked for
}

func (v *chainView) gasPrices(context.Context) (least, usual uint64, err error) {
	return 0, 100, v.priceless
}

func (v *chainView) simulate(ctx context.Context, _ *micropay.Micropayment) (paychan.Simulation, error) {
	v.simulations.Add(1)
	switch {
	case v.hangs:
		<-ctx.Done()
		return paychan.Simulation{}, ctx.Err()
	case v.simulates != nil:
		return v.simulates()
	default:
		return v.simulation, v.fails
	}
}

func (v *chainView) sequence(ctx context.Context, _ micropay.Address) (uint64, error) {
	v.accounts.Add(1)
	if v.hangs {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return v.accountSequence, v.fails
}

func (v *chainView) read(ctx context.Context, _, _ string, number int64) (ledger.Reading, error) {
	v.reads.Add(1)
	if v.hangs {
		<-ctx.Done()
		return ledger.Reading{}, ctx.Err()
	}
	r := v.reading
	r.Gone = r.Gone || number != 1
	r.ChainTime = time.Now().Add(v.ahead)
	return r, v.fails
}

// onChain runs a test in a bubble with a shop whose channel 1 is on the chain, with a deposit
// of 100.
func onChain(t *testing.T, test func(t *testing.T, s *shop, v *chainView, p payer), change ...func(*paychan.Options)) {
	v := &chainView{simulation: paychan.Simulation{Success: true, GasUsed: 12}}
	withChain := func() paychan.Options {
		opt := options()
		opt.Chain = &paychan.ChainOptions{
			Read: v.read, Simulate: v.simulate, AccountSequence: v.sequence, GasPrices: v.gasPrices, Ahead: func() (time.Duration, error) { return v.ahead, v.clock },
			Refresh: 30 * time.Second, StartingLimit: opt.UnsettledLimit, SettleAt: 50, MaxFee: 1 << 40,
		}
		for _, f := range change {
			f(&opt)
		}
		return opt
	}
	inBubble(t, withChain, func(t *testing.T, s *shop) {
		v.reading = ledger.Reading{Deposit: 100, NextSequence: 1, Expires: time.Now().Add(time.Hour)}
		s.SetGasPrices(0, 100) // a node reads them when it starts
		test(t, s, v, newPayer(t, 1))
	})
}

func (s *shop) openOnChain(p payer) ledger.Channel {
	s.t.Helper()
	return s.open(p.address(), 1)
}

// TestNothingIsSoldAtAnUnknownGasPrice checks that a new form is compared with the gas price before
// anything is sold for it, also right after a start, and that nothing is sold for it while that
// price cannot be read. A form that was accepted before sells on.
// Invariant 177.
func TestNothingIsSoldAtAnUnknownGasPrice(t *testing.T) {
	onChain(t, func(t *testing.T, s *shop, v *chainView, p payer) {
		s.openOnChain(p)
		buy := func(sequence, amount, price uint64) error { return s.pay(p, sequence, amount, gas(20, price)) }
		s.stop()
		s.start() // the prices are not known
		v.priceless = errors.New("away")
		testenv.Is(t, buy(1, 3, 100), paychan.ErrChain, "while the price cannot be read")
		v.priceless = nil
		time.Sleep(time.Minute)
		wantReason(t, "at six times the usual price", buy(2, 3, 600), micropay.ReasonGas)
		testenv.Check(t, buy(3, 3, 100))
		s.stop()
		s.start()
		v.priceless = errors.New("away")
		testenv.Is(t, buy(4, 6, 100), nil, "a form that was accepted before")
	})
}

// TestPriceBecomesKnownBeforeASale checks that a payment that was verified before the gas price was
// known is compared with it, even if another payment has asked for the price meanwhile.
// Invariant 177.
func TestPriceBecomesKnownBeforeASale(t *testing.T) {
	onChain(t, func(t *testing.T, s *shop, _ *chainView, p payer) {
		s.openOnChain(p)
		s.stop()
		s.start()
		payment, err := s.verify(p, 1, 3, gas(20, 6000))
		testenv.Check(t, err)
		s.SetGasPrices(100, 100)
		wantReason(t, "a high price", testenv.Error(s.PayRead(t.Context(), payment, 1, "")), micropay.ReasonGas)
	})
}

// TestChannelsOfTheChainAreNamed checks how channels are opened, and that deposits are made on the
// chain.
// Invariant 168.
func TestChannelsOfTheChainAreNamed(t *testing.T) {
	onChain(t, func(t *testing.T, s *shop, v *chainView, p payer) {
		number, other, deposit := int64(1), int64(2), int64(5)
		for label, test := range map[string]struct {
			open paychan.OpenOptions
			want error
		}{
			"without a sender":             {paychan.OpenOptions{PaymentChannelID: &number}, paychan.ErrChainTerms},
			"without a number":             {paychan.OpenOptions{Sender: p.address()}, paychan.ErrChainTerms},
			"with a deposit":               {paychan.OpenOptions{Sender: p.address(), PaymentChannelID: &number, Deposit: &deposit}, paychan.ErrChainTerms},
			"with an expiry":               {paychan.OpenOptions{Sender: p.address(), PaymentChannelID: &number, Expires: time.Now().Add(time.Hour)}, paychan.ErrChainTerms},
			"one that is not on the chain": {paychan.OpenOptions{Sender: p.address(), PaymentChannelID: &other}, paychan.ErrNotOnChain},
		} {
			testenv.Is(t, testenv.Error(s.Open(t.Context(), test.open, nil)), test.want, "%s", label)
		}
		v.fails = errors.New("no fullnode answers")
		err := testenv.Error(s.Open(t.Context(), paychan.OpenOptions{Sender: p.address(), PaymentChannelID: &number}, nil))
		testenv.Is(t, err, paychan.ErrChain, "without the chain")
		v.fails, v.reading.Withdrawn, v.reading.NextSequence = nil, 40, 5
		c := s.openOnChain(p)
		if c.Deposit != 100 || c.Accepted != 0 || c.Settled != 40 || c.NextSequence != 5 || !c.Expires.Equal(v.reading.Expires) {
			t.Errorf("%+v", c)
		}
		testenv.Is(t, testenv.Error(s.Deposit(t.Context(), c.ID, 5, nil)), paychan.ErrDepositOnChain, "deposit")
	})
}

// TestChannelsAreReadAgain checks when a channel is read again, and that payments wait for one
// reading.
// Invariant 168.
func TestChannelsAreReadAgain(t *testing.T) {
	onChain(t, func(t *testing.T, s *shop, v *chainView, p payer) {
		s.openOnChain(p)
		sequence, amount := uint64(0), uint64(0)
		pay := func(n uint64) error {
			err := s.pay(p, sequence+1, amount+n)
			if err == nil {
				sequence, amount = sequence+1, amount+n
			}
			return err
		}
		reads := func(want int64, label string) {
			t.Helper()
			testenv.Equal(t, v.reads.Swap(0), want, "%s: readings", label)
		}
		reads(1, "open")
		testenv.OK(t, pay(3))
		time.Sleep(30 * time.Second)
		testenv.OK(t, pay(3))
		reads(0, "a reading that is recent")
		time.Sleep(time.Second)
		testenv.OK(t, pay(3))
		reads(1, "a reading that is old")
		testenv.Is(t, pay(200), ledger.ErrInsufficientFunds, "above the deposit")
		reads(0, "above the deposit, immediately after a reading")
		time.Sleep(3 * time.Second)
		v.reading.Deposit = 1000
		testenv.OK(t, pay(200))
		reads(1, "above the deposit, after a deposit")
		time.Sleep(31 * time.Second)
		v.reading.Deposit = 999
		testenv.Is(t, pay(3), ledger.ErrChannelStopped, "a channel that has shrunk")
		time.Sleep(3 * time.Second)
		v.reading.Deposit = 2000
		v.reads.Store(0)
		testenv.OK(t, pay(3))
		reads(1, "a channel that has stopped, after a deposit")

		time.Sleep(31 * time.Second)
		v.reading.Gone = true
		testenv.Is(t, pay(3), ledger.ErrChannelStopped, "a channel that is gone")
	})
}

// TestSalesGoOnWithoutTheChain checks that payments are accepted by the last reading while the
// chain hangs, and that not each of them waits for it.
// Invariant 168.
func TestSalesGoOnWithoutTheChain(t *testing.T) {
	onChain(t, func(t *testing.T, s *shop, v *chainView, p payer) {
		s.openOnChain(p)
		time.Sleep(time.Minute)
		v.hangs = true
		v.reads.Store(0)
		began := time.Now()
		for i := range uint64(20) {
			began := time.Now()
			s.mustPay(p, i+1, 3*(i+1))
			if waited := time.Since(began); waited > 2*time.Second {
				t.Errorf("payment %d took %s", i, waited)
			}
			if i == 5 {
				time.Sleep(10 * time.Second) // the reading and the simulation have failed
			}
		}
		// One payment waits for a reading, and one for a simulation.
		if waited := time.Since(began) - 10*time.Second; waited > 4*time.Second || v.reads.Load() != 1 || v.simulations.Load() != 1 {
			t.Errorf("20 payments took %s, with %d readings and %d simulations", waited, v.reads.Load(), v.simulations.Load())
		}
		time.Sleep(time.Minute)
	})
}

// TestGasIsCheckedBeforeAcceptance checks that a micropayment that costs too much gas, or pays too
// little for it, is refused.
// Invariant 177.
func TestGasIsCheckedBeforeAcceptance(t *testing.T) {
	onChain(t, func(t *testing.T, s *shop, _ *chainView, p payer) {
		s.SetGasPrices(100, 300)
		for _, test := range []struct {
			gas, price uint64
			refused    bool
		}{
			{1 << 30, 1 << 10, false}, {1 << 30, 1<<10 + 1, true}, {1 << 63, 100, true}, {1 << 33, 1 << 33, true}, {1000, 100, false}, {1000, 99, true},
			{3, 100, false}, {2, 100, true}, {1000, 1500, false}, {1000, 1501, true},
		} {
			_, err := s.verify(p, 1, 3, gas(test.gas, test.price))
			if test.refused {
				wantReason(t, fmt.Sprintf("%+v", test), err, micropay.ReasonGas)
			} else {
				testenv.Is(t, err, nil, "%+v", test)
			}
		}
	})
}
