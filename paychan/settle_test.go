package paychan_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/database"
	"sluice/internal/task"
	"sluice/ledger"
	"sluice/paychan"
	"sluice/test/testenv"
)

// bookKeeper is a store with a ledger that fails as configured.
type bookKeeper struct {
	paychan.Store
	mu struct {
		sync.Mutex
		fail  func(ctx context.Context, list []ledger.Settlement) error // before it books; nil: never
		lose  int                                                       // calls that lose their result
		calls [][]ledger.Settlement
		at    []time.Time
	}
}

var errLedger = errors.New("the ledger refuses")

func (l *bookKeeper) Book(ctx context.Context, list []ledger.Settlement) error {
	l.mu.Lock()
	l.mu.calls, l.mu.at = append(l.mu.calls, list), append(l.mu.at, l.Now())
	fail := l.mu.fail
	lost := fail == nil && l.mu.lose > 0
	if lost {
		l.mu.lose--
	}
	l.mu.Unlock()
	if fail != nil {
		if err := fail(ctx, list); err != nil {
			return err
		}
	}
	err := l.Store.Book(ctx, list)
	if err == nil && lost {
		err = database.ErrUnknownOutcome
	}
	return err
}

// fails makes bookings return fail's errors from now on.
func (l *bookKeeper) fails(fail func(ctx context.Context, list []ledger.Settlement) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.fail = fail
}

func refuseAll(context.Context, []ledger.Settlement) error { return errLedger }

func hang(ctx context.Context, _ []ledger.Settlement) error {
	<-ctx.Done()
	return ctx.Err()
}

func (l *bookKeeper) called() (calls [][]ledger.Settlement, at []time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.mu.calls), slices.Clone(l.mu.at)
}

// withLedger replaces a shop's store by a ledger.
func (s *shop) withLedger() *bookKeeper {
	s.t.Helper()
	l := &bookKeeper{Store: s.meta}
	s.Service = testenv.Must(paychan.New(l, s.opt))(s.t)
	return l
}

// settling is a shop in a bubble in which Run is running.
type settling struct {
	*shop
	ledger  *bookKeeper
	payer   payer
	channel ledger.Channel // number 1, the payer's

	mu        sync.Mutex
	reports   []error
	collected int64
}

// settleIn runs a test in a bubble. Run returns before the test does.
func settleIn(t *testing.T, test func(*testing.T, *settling)) {
	inBubble(t, options, func(t *testing.T, shop *shop) {
		s := &settling{shop: shop, ledger: shop.withLedger(), payer: newPayer(t, 1)}
		s.channel = s.open(s.payer.address(), 1)
		ctx, cancel := context.WithCancel(t.Context())
		var tasks sync.WaitGroup
		tasks.Go(func() { s.Run(ctx, s.report) })
		tasks.Go(func() { s.Review(ctx, s.report) })
		test(t, s)
		cancel()
		tasks.Wait()
		if got, ok := s.Unsettled(); ok {
			t.Errorf("after the last review: %+v", got)
		}
	})
}

func (s *settling) report(run task.Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if run.Task != task.Settle && run.Task != task.ReviewSettlements {
		s.t.Errorf("a report of %q", run.Task)
	}
	if run.Task == task.Settle {
		s.collected += run.Count
	}
	if run.Err != nil {
		s.reports = append(s.reports, run.Err)
	}
}

// reported returns the reports so far that are err.
func (s *settling) reported(err error) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.reports {
		if errors.Is(one, err) {
			n++
		}
	}
	return n
}

// wait lets Run work for a duration.
func (s *settling) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (s *settling) settled(want int64) {
	s.t.Helper()
	if got := s.shop.channel(s.channel.ID).Settled; got != want {
		s.t.Errorf("%d is settled, want %d", got, want)
	}
}

func (s *settling) nothingPending() {
	s.t.Helper()
	if pending := s.pending(); len(pending) > 0 {
		s.t.Errorf("still pending: %+v", pending)
	}
}

func TestRunCollectsWhatIsAccepted(t *testing.T) {
	settleIn(t, func(t *testing.T, s *settling) {
		s.wait(10 * time.Second)
		if calls, _ := s.ledger.called(); len(calls) > 0 {
			t.Fatalf("nothing was accepted, and booked was %+v", calls)
		}
		s.buy(paychan.BuyOptions{Payment: s.paid(s.payer, 1, 4, 10)})
		synctest.Wait() // without waiting for the next second
		s.settled(10)
		s.nothingPending()
		s.mustPay(s.payer, 5, 13)
		synctest.Wait()
		s.settled(13)
		s.wait(time.Hour)
		if calls, _ := s.ledger.called(); len(calls) != 2 || len(s.reports) > 0 || s.collected != 2 {
			t.Errorf("%d calls, %d collected and reports %v, want 2, 2 and none", len(calls), s.collected, s.reports)
		}
	})
}

// TestRunRetries checks that a failed settlement is tried again after a second, even if payments
// over other channels are accepted before.
// Invariant 26.
func TestRunRetries(t *testing.T) {
	settleIn(t, func(t *testing.T, s *settling) {
		s.ledger.fails(refuseAll)
		s.buy(paychan.BuyOptions{Payment: s.paid(s.payer, 1, 1, 10)})
		for i := range 3 {
			s.wait(500 * time.Millisecond)
			s.open(s.payer.address(), int64(10+i))
			s.buy(paychan.BuyOptions{Payment: s.paid(s.payer, uint64(10+i), 1, 3)})
			s.wait(500 * time.Millisecond)
		}
		s.settled(0)
		_, at := s.ledger.called()
		if tries := slices.Compact(at); len(tries) != 4 || s.reported(errLedger) != 3 {
			t.Errorf("tried at %v, with %d reports, want each second", at, s.reported(errLedger))
		}
		s.ledger.fails(nil)
		s.wait(2 * time.Second)
		s.settled(10)
		s.nothingPending()
	})
}

// TestRunAfterALostResult checks that a payment is booked once although the result was lost.
func TestRunAfterALostResult(t *testing.T) {
	settleIn(t, func(t *testing.T, s *settling) {
		s.ledger.mu.lose = 1
		s.buy(paychan.BuyOptions{Payment: s.paid(s.payer, 1, 7, 10)})
		s.wait(20 * time.Second)
		s.settled(10)
		if calls, _ := s.ledger.called(); len(calls) != 1 || s.reported(database.ErrUnknownOutcome) != 1 {
			t.Errorf("%d calls and the reports %v, want one each", len(calls), s.reports)
		}
		// It has not booked them.
		s.ledger.fails(func(context.Context, []ledger.Settlement) error { return database.ErrUnknownOutcome })
		s.buy(paychan.BuyOptions{Payment: s.paid(s.payer, 1, 8, 20)})
		s.wait(5 * time.Second)
		s.settled(10)
		s.ledger.fails(nil)
		s.wait(2 * time.Second)
		s.settled(20)
	})
}

// TestRunContinuesAfterAHangingCall checks that a hanging call to the store ends, and does not
// prevent later ones.
// Invariant 29.
func TestRunContinuesAfterAHangingCall(t *testing.T) {
	settleIn(t, func(t *testing.T, s *settling) {
		s.ledger.fails(hang)
		s.buy(paychan.BuyOptions{Payment: s.paid(s.payer, 1, 1, 10)})
		synctest.Wait()
		s.ledger.fails(nil)
		s.open(s.payer.address(), 2)
		s.buy(paychan.BuyOptions{Payment: s.paid(s.payer, 2, 1, 10)})
		s.wait(15 * time.Second)
		s.settled(10)
		s.nothingPending()
		if s.reported(context.DeadlineExceeded) != 1 {
			t.Errorf("reports: %v", s.reports)
		}
	})
}

// TestRunReportsExpiredPayments checks that amounts that expired uncollected are reported, until a
// later payment collects them.
// Invariant 26.
func TestRunReportsExpiredPayments(t *testing.T) {
	settleIn(t, func(t *testing.T, s *settling) {
		s.ledger.fails(refuseAll)
		s.buy(paychan.BuyOptions{Payment: s.paid(s.payer, 1, 1, 10)})
		s.wait(5 * time.Minute)
		if got, _ := s.Unsettled(); got.Expired != (ledger.UnsettledSum{Channels: 1, Amount: 10}) {
			t.Errorf("%+v, want 1 channel with 10 units", got)
		}
		testenv.Equal(t, s.reported(paychan.ErrUncollected), 1, "reports")
		s.buy(paychan.BuyOptions{Payment: s.paid(s.payer, 1, 2, 25)})
		s.wait(5 * time.Minute)
		const growth = "25 units over 1 channels, 15 more than before"
		if all := errors.Join(s.reports...); !strings.Contains(all.Error(), growth) {
			t.Errorf("%q is not reported", growth)
		}
		s.ledger.fails(nil)
		s.buy(paychan.BuyOptions{Payment: s.paid(s.payer, 1, 3, 35)})
		s.wait(2 * time.Minute)
		s.settled(35) // amounts are cumulative, so nothing is lost
		if got, ok := s.Unsettled(); !ok || got.Expired != (ledger.UnsettledSum{}) {
			t.Errorf("%+v, %t, want none", got, ok)
		}
	})
}

// TestRunBooksExpiredPayments checks that expired payments are booked too: no chain can refuse
// them.
// Invariant 179.
func TestRunBooksExpiredPayments(t *testing.T) {
	settleIn(t, func(t *testing.T, s *settling) {
		s.ledger.fails(refuseAll)
		p := s.paid(s.payer, 1, 1, 10)
		s.buy(paychan.BuyOptions{Payment: p})
		s.wait(10 * time.Minute)
		if _, at := s.ledger.called(); len(at) == 0 || !at[len(at)-1].After(p.Expires) {
			t.Errorf("the last of %d calls is not after the payment expired at %s", len(at), p.Expires)
		}
		if c := s.shop.channel(s.channel.ID); c.Settled != 0 || c.Accepted != 10 {
			t.Errorf("%+v", c)
		}
		s.ledger.fails(nil)
		s.wait(2 * time.Second)
		s.settled(10)
	})
}

// accept has the payer pay for reads over n channels, and returns their ids.
func (s *shop) accept(p payer, n int) (ids []string) {
	s.t.Helper()
	for i := range n {
		ids = append(ids, s.open(p.address(), int64(i)).ID)
		testenv.OK(s.t, testenv.Error(s.PayRead(s.t.Context(), s.paid(p, uint64(i), 1, 3), 1, "")))
	}
	return ids
}

// TestLedgerContinuesAfterARefusal checks that payments that the ledger refuses do not keep further
// ones from being booked, in their batch and after it, and are tried once more each.
// Invariant 29.
func TestLedgerContinuesAfterARefusal(t *testing.T) {
	s := newShop(t)
	ids := s.accept(newPayer(t, 1), 205)
	l, pending := s.withLedger(), s.pending()
	bad := map[string]bool{pending[7].Channel: true, pending[201].Channel: true} // in the first and in the second batch
	l.fails(func(_ context.Context, list []ledger.Settlement) error {
		if slices.ContainsFunc(list, func(p ledger.Settlement) bool { return bad[p.Channel] }) {
			return errLedger
		}
		return nil
	})
	if err := s.Settle(t.Context()); !errors.Is(err, errLedger) || strings.Count(err.Error(), errLedger.Error()) != 2 {
		t.Errorf("error %v, want %v twice", err, errLedger)
	}
	for _, id := range ids {
		if settled := s.channel(id).Settled == 3; settled == bad[id] {
			t.Errorf("channel %.6s is settled: %t", id, settled)
		}
	}
	if calls, _ := l.called(); len(calls) != 1+200+1+5 {
		t.Errorf("%d calls", len(calls))
	}
	s.audit()
}

// TestLedgerBatches checks that a batch is one transaction, and that its settlements are tried
// separately only after a refusal, so that an outage does not multiply the calls.
func TestLedgerBatches(t *testing.T) {
	for _, test := range []struct {
		errs []error // for the calls; then nil
		want int
	}{
		{nil, 1},
		{[]error{database.ErrUnavailable}, 1},
		{[]error{database.ErrUnknownOutcome}, 1},
		{[]error{context.DeadlineExceeded}, 1},
		{[]error{errLedger, errLedger, errLedger, errLedger}, 4},
		{[]error{errLedger, database.ErrUnavailable}, 2},
	} {
		s := newShop(t)
		s.accept(newPayer(t, 1), 3)
		l, n := s.withLedger(), 0
		l.fails(func(context.Context, []ledger.Settlement) error {
			if n++; n > len(test.errs) {
				return nil
			}
			return test.errs[n-1]
		})
		err := s.Settle(t.Context())
		last := error(nil)
		if len(test.errs) > 0 {
			last = test.errs[len(test.errs)-1]
		}
		if calls, _ := l.called(); !errors.Is(err, last) || len(calls) != test.want {
			t.Errorf("after %v: %d calls and error %v, want %d calls", test.errs, len(calls), err, test.want)
		}
	}
}

// TestRunEndsWithItsContext checks that Run returns even in the middle of a settlement. That does
// not count as a failure, and the next Run tries it again.
func TestRunEndsWithItsContext(t *testing.T) {
	inBubble(t, options, func(t *testing.T, s *shop) {
		l, payer := s.withLedger(), newPayer(t, 1)
		c := s.open(payer.address(), 1)
		s.buy(paychan.BuyOptions{Payment: s.paid(payer, 1, 1, 10)})
		run := func() {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			s.Run(ctx, func(run task.Run) {
				if run.Err != nil {
					t.Errorf("report %v", run.Err)
				}
			})
		}
		l.fails(hang)
		run()
		testenv.Equal(t, s.channel(c.ID).Settled, 0, "settled while the store hangs")
		l.fails(nil)
		run()
		testenv.Equal(t, s.channel(c.ID).Settled, 10, "settled")
	})
}

// TestFailuresAreCounted checks that an error lists ten failures, and how many more there were.
func TestFailuresAreCounted(t *testing.T) {
	for n, want := range map[int]string{10: "", 12: "and 2 failures more"} {
		s := newShop(t)
		s.accept(newPayer(t, 1), n)
		s.withLedger().fails(refuseAll)
		err := s.Settle(t.Context())
		if err == nil || strings.Count(err.Error(), errLedger.Error()) != 10 {
			t.Fatalf("of %d failures: %v", n, err)
		}
		if _, more, _ := strings.Cut(err.Error(), "and "); (want == "") != (more == "") || !strings.Contains(err.Error(), want) {
			t.Errorf("of %d failures: %v, want %q", n, err, want)
		}
	}
}

// unlistedStore fails to list pending settlements.
type unlistedStore struct{ paychan.Store }

func (unlistedStore) Settlements(context.Context, ledger.Settlement, int) ([]ledger.Settlement, error) {
	return nil, fmt.Errorf("listing: %w", errLedger)
}

// TestRunReportsThatItCannotList checks that it is reported if the store fails to list pending
// settlements.
func TestRunReportsThatItCannotList(t *testing.T) {
	inBubble(t, options, func(t *testing.T, s *shop) {
		service := testenv.Must(paychan.New(unlistedStore{s.meta}, s.opt))(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		reports := 0
		service.Run(ctx, func(run task.Run) {
			if reports++; !errors.Is(run.Err, errLedger) {
				t.Errorf("reported: %v, want %v", run.Err, errLedger)
			}
		})
		if reports < 9 {
			t.Errorf("%d reports in ten seconds", reports)
		}
	})
}
