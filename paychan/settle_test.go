package paychan_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/task"
	"sluice/metastore"
	"sluice/paychan"
)

// collector is the chain: it pays each payment of a channel once, and fails as configured.
type collector struct {
	now   func() time.Time
	takes time.Duration // duration of a call
	mu    struct {
		sync.Mutex
		busy    map[string]bool              // by channel
		refuse  int                          // number of calls that fail before they collect
		lose    int                          // number of calls that fail after they have collected
		calls   []metastore.Settlement       // in order
		at      []time.Time                  // of the calls
		paid    map[string]map[int64][]int64 // amounts by channel and sequence, each as often as it was new
		overlap bool                         // two calls for a channel were concurrent
		most    int                          // concurrent calls
		late    bool                         // a payment arrived after it had expired
	}
}

var errChain = errors.New("the chain does not respond")

func (c *collector) collect(ctx context.Context, s metastore.Settlement) error {
	c.begin(s)
	defer c.end(s)
	select {
	case <-time.After(c.takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.refuse > 0 {
		c.mu.refuse--
		return errChain
	}
	if c.mu.paid[s.Channel] == nil {
		c.mu.paid[s.Channel] = map[int64][]int64{}
	}
	if c.mu.paid[s.Channel][s.Sequence] == nil {
		c.mu.paid[s.Channel][s.Sequence] = []int64{s.Amount}
	}
	if c.mu.lose > 0 {
		c.mu.lose--
		return errChain
	}
	return nil
}

func (c *collector) begin(s metastore.Settlement) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.overlap = c.mu.overlap || c.mu.busy[s.Channel]
	c.mu.late = c.mu.late || !c.now().Before(s.Expires)
	c.mu.busy[s.Channel] = true
	c.mu.most = max(c.mu.most, len(c.mu.busy))
	c.mu.calls = append(c.mu.calls, s)
	c.mu.at = append(c.mu.at, c.now())
}

func (c *collector) end(s metastore.Settlement) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.busy, s.Channel)
}

func (c *collector) calls() []metastore.Settlement {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.calls
}

// settling is a shop in a bubble in which Run is running.
type settling struct {
	*shop
	chain   *collector
	payer   payer
	channel metastore.Channel // number 1, of the payer

	// Of the runs; read after synctest.Wait.
	mu        sync.Mutex // of reports and collected
	reports   []error
	collected int64
}

// settleIn runs a test in a bubble. Run returns before the test does.
func settleIn(t *testing.T, settler func(*settling) paychan.Settler, test func(*testing.T, *settling)) {
	path := filepath.Join(t.TempDir(), "meta.db")
	synctest.Test(t, func(t *testing.T) {
		s := &settling{shop: &shop{t: t, path: path, opt: options(), now: time.Now}, payer: newPayer(t, 1)}
		s.chain = &collector{now: time.Now, takes: time.Second}
		s.chain.mu.paid = map[string]map[int64][]int64{}
		s.chain.mu.busy = map[string]bool{}
		s.start()
		defer s.stop()
		s.channel = s.open(s.payer.address(), 1)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			report := func(run task.Run) {
				s.mu.Lock()
				defer s.mu.Unlock()
				if run.Task != task.Settle && run.Task != task.ReviewSettlements {
					t.Errorf("a report of %q", run.Task)
				}
				if run.Task == task.Settle {
					s.collected += run.Count
				}
				if run.Err != nil {
					s.reports = append(s.reports, run.Err)
				}
			}
			var tasks sync.WaitGroup
			tasks.Go(func() { s.Run(ctx, settler(s), report) })
			tasks.Go(func() { s.Review(ctx, report) })
			tasks.Wait()
		}()
		test(t, s)
		s.audit()
		cancel()
		<-ended
	})
}

func byChain(s *settling) paychan.Settler { return s.chain.collect }

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

func TestRunCollectsWhatIsAccepted(t *testing.T) {
	settleIn(t, byChain, func(t *testing.T, s *settling) {
		s.wait(10 * time.Second)
		if calls := s.chain.calls(); len(calls) > 0 {
			t.Fatalf("nothing was accepted, and settled was %+v", calls)
		}
		p := s.paid(s.payer, 1, 4, 10)
		s.buy(paychan.BuyOptions{Payment: p})
		s.wait(1500 * time.Millisecond) // half a second more than the chain takes
		s.settled(10)
		want := []metastore.Settlement{{Channel: s.channel.ID, Sequence: 4, Amount: 10, Proof: p.Proof, Expires: p.Expires}}
		if calls := s.chain.calls(); !reflect.DeepEqual(calls, want) {
			t.Errorf("%+v, want %+v", calls, want)
		}
		if pending := s.pending(); len(pending) > 0 {
			t.Errorf("still pending: %+v", pending)
		}
		if _, err := s.PayRead(t.Context(), s.paid(s.payer, 1, 5, 13), 1, ""); err != nil {
			t.Fatal(err)
		}
		if synctest.Wait(); len(s.chain.calls()) != 2 {
			t.Error("a payment for a read is not settled immediately")
		}
		s.wait(1500 * time.Millisecond)
		s.settled(13)
		s.wait(time.Hour)
		if calls := s.chain.calls(); len(calls) != 2 || len(s.reports) > 0 || s.collected != 2 {
			t.Errorf("%d calls, %d collected and reports %v, want 2, 2 and none", len(calls), s.collected, s.reports)
		}
	})
}

func TestRunRetries(t *testing.T) {
	settleIn(t, byChain, func(t *testing.T, s *settling) {
		s.chain.mu.refuse, s.chain.takes = 3, 500*time.Millisecond
		s.buy(paychan.BuyOptions{Payment: s.paid(s.payer, 1, 1, 10)})
		s.wait(20 * time.Second)
		s.settled(10)
		if calls := s.chain.calls(); len(calls) != 4 || s.chain.mu.late {
			t.Errorf("%d calls (one of them late: %t), want 4", len(calls), s.chain.mu.late)
		}
		for i, at := range s.chain.mu.at[1:] {
			if pause := at.Sub(s.chain.mu.at[i]) - s.chain.takes; pause < time.Second {
				t.Errorf("call %d is made %s after the previous failure", i+1, pause)
			}
		}
		if len(s.reports) != 3 {
			t.Errorf("%d reports, want 3", len(s.reports))
		}
		for _, err := range s.reports {
			if !errors.Is(err, errChain) {
				t.Errorf("report %v", err)
			}
		}
	})
}

func TestRunRepeatsAfterALostResponse(t *testing.T) {
	settleIn(t, byChain, func(t *testing.T, s *settling) {
		s.chain.mu.lose = 2
		s.buy(paychan.BuyOptions{Payment: s.paid(s.payer, 1, 7, 10)})
		s.wait(20 * time.Second)
		s.settled(10)
		calls := s.chain.calls()
		if len(calls) != 3 || !reflect.DeepEqual(calls[0], calls[1]) || !reflect.DeepEqual(calls[1], calls[2]) {
			t.Errorf("%+v, want the same three times", calls)
		}
		if want := map[string]map[int64][]int64{s.channel.ID: {7: {10}}}; !reflect.DeepEqual(s.chain.mu.paid, want) {
			t.Errorf("paid %v, want %v", s.chain.mu.paid, want)
		}
	})
}

func TestRunCollectsTheNewest(t *testing.T) {
	settleIn(t, byChain, func(t *testing.T, s *settling) {
		s.chain.mu.refuse = 1
		s.buy(paychan.BuyOptions{Payment: s.paid(s.payer, 1, 1, 10)})
		s.wait(500 * time.Millisecond) // the first call is in progress, and will fail
		s.buy(paychan.BuyOptions{Payment: s.paid(s.payer, 1, 2, 20)})
		s.wait(20 * time.Second)
		s.settled(20)
		if want := map[string]map[int64][]int64{s.channel.ID: {2: {20}}}; !reflect.DeepEqual(s.chain.mu.paid, want) {
			t.Errorf("paid %v, want %v", s.chain.mu.paid, want)
		}
		// A payment that is collected while a newer one is accepted counts.
		s.buy(paychan.BuyOptions{Payment: s.paid(s.payer, 1, 3, 30)})
		s.wait(500 * time.Millisecond)
		s.buy(paychan.BuyOptions{Payment: s.paid(s.payer, 1, 4, 40)})
		s.wait(750 * time.Millisecond)
		s.settled(30)
		s.wait(20 * time.Second)
		s.settled(40)
		at := s.chain.mu.at
		if pause := at[len(at)-1].Sub(at[len(at)-2]); pause != s.chain.takes {
			t.Errorf("the newer one was not collected until %s after the call for the other", pause-s.chain.takes)
		}
	})
}

// TestRunSettlesChannelsConcurrently checks that the channels of a payer are settled concurrently,
// and that none has two concurrent calls.
func TestRunSettlesChannelsConcurrently(t *testing.T) {
	settleIn(t, byChain, func(t *testing.T, s *settling) {
		const channels = 40
		for i := range uint64(channels) {
			s.open(s.payer.address(), int64(10+i))
			s.accept(10+i, 1, 3)
		}
		s.buy(paychan.BuyOptions{Payment: s.paid(s.payer, 1, 1, 3)})
		s.wait(500 * time.Millisecond)
		for i := range uint64(channels) { // while the first calls are in progress
			s.accept(10+i, 2, 6)
		}
		s.wait(20 * time.Second)
		if s.chain.mu.overlap || s.chain.mu.most < channels/2 {
			t.Errorf("concurrent calls for a channel: %t; at most %d concurrent channels", s.chain.mu.overlap, s.chain.mu.most)
		}
		if pending := s.pending(); len(pending) > 0 {
			t.Errorf("still pending: %+v", pending)
		}
	})
}

// accept has the payer pay for a read in the store, not with Service, which would wake Run.
func (s *settling) accept(number, sequence, amount uint64) {
	s.t.Helper()
	_, err := s.meta.PayRead(s.t.Context(), metastore.ReadPurchase{Payment: s.paid(s.payer, number, sequence, amount), Price: 3, Count: 1})
	if err != nil {
		s.t.Fatal(err)
	}
}

// TestRunContinuesPastHangingCalls checks that calls that hang until their timeout do not prevent
// the collection of other payers' payments.
func TestRunContinuesPastHangingCalls(t *testing.T) {
	hung := map[string]bool{}
	hangs := func(s *settling) paychan.Settler {
		return func(ctx context.Context, p metastore.Settlement) error {
			if hung[p.Channel] {
				<-ctx.Done()
				return ctx.Err()
			}
			return s.chain.collect(ctx, p)
		}
	}
	settleIn(t, hangs, func(t *testing.T, s *settling) {
		for i := range uint64(20) {
			hung[s.open(s.payer.address(), int64(10+i)).ID] = true
			s.accept(10+i, 1, 3)
		}
		s.wait(5 * time.Second)
		for i := range int64(3) {
			s.buy(paychan.BuyOptions{Payment: s.paid(s.payer, 1, uint64(i+1), uint64(10*(i+1)))})
			s.wait(1500 * time.Millisecond)
			s.settled(10 * (i + 1))
		}
		s.wait(10 * time.Second)
		if len(s.reports) == 0 || !errors.Is(s.reports[0], context.DeadlineExceeded) {
			t.Errorf("reports: %v", s.reports)
		}
	})
}

// TestRunReportsExpiredPayments checks that amounts that expired uncollected are reported, until a
// later payment collects them.
func TestRunReportsExpiredPayments(t *testing.T) {
	settleIn(t, byChain, func(t *testing.T, s *settling) {
		s.chain.mu.refuse = 1_000
		s.buy(paychan.BuyOptions{Payment: s.paid(s.payer, 1, 1, 10)})
		s.wait(5 * time.Minute)
		if got := s.Unsettled().Expired; got != (metastore.UnsettledSum{Channels: 1, Amount: 10}) {
			t.Errorf("%+v, want 1 channel with 10 units", got)
		}
		told := 0
		for _, err := range s.reports {
			if errors.Is(err, paychan.ErrUncollected) {
				told++
			}
		}
		if told != 1 {
			t.Errorf("reported %d times, want once", told)
		}
		s.buy(paychan.BuyOptions{Payment: s.paid(s.payer, 1, 2, 25)})
		s.wait(5 * time.Minute)
		const growth = "25 units over 1 channels, 15 more than before"
		if all := errors.Join(s.reports...); !strings.Contains(all.Error(), growth) {
			t.Errorf("%q is not reported", growth)
		}
		s.chain.mu.refuse = 0
		s.buy(paychan.BuyOptions{Payment: s.paid(s.payer, 1, 3, 35)})
		s.wait(2 * time.Minute)
		if got := s.Unsettled().Expired; got != (metastore.UnsettledSum{}) {
			t.Errorf("%+v, want none", got)
		}
	})
}

func TestRunAbandonsExpiredPayments(t *testing.T) {
	settleIn(t, byChain, func(t *testing.T, s *settling) {
		s.chain.mu.refuse = 1_000
		s.buy(paychan.BuyOptions{Payment: s.paid(s.payer, 1, 1, 10)})
		s.wait(10 * time.Minute)
		calls, reports := len(s.chain.calls()), 0
		for _, err := range s.reports {
			if errors.Is(err, errChain) {
				reports++
			}
		}
		if calls < 10 || calls > 60 || s.chain.mu.late || reports != calls {
			t.Errorf("%d calls (one of them late: %t) and %d reports in a minute", calls, s.chain.mu.late, reports)
		}
		for i := 1; i < calls; i++ {
			if pause := s.chain.mu.at[i].Sub(s.chain.mu.at[i-1]); pause < time.Second {
				t.Errorf("tried again after %v", pause)
			}
		}
		closed, err := s.Close(t.Context(), s.channel.ID)
		if err != nil || closed.Accepted != 10 || closed.Settled != 0 {
			t.Errorf("%+v, %v", closed, err)
		}
	})
}

// TestRunSettlesNothingExpired checks that a slow chain gets only payments that have not expired
// when they are sent.
func TestRunSettlesNothingExpired(t *testing.T) {
	settleIn(t, byChain, func(t *testing.T, s *settling) {
		s.chain.takes = 9 * time.Second
		const channels = 600 // more than the time suffices for
		for number := range uint64(channels) {
			s.open(s.payer.address(), int64(10+number))
			s.accept(10+number, 1, 3)
		}
		s.wait(5 * time.Minute)
		if calls := len(s.chain.calls()); calls < 64 || calls >= channels || s.chain.mu.late {
			t.Errorf("%d calls (one of them late: %t), want fewer than %d", calls, s.chain.mu.late, channels)
		}
	})
}

func TestRunAfterExpiryCollectsTheNextPayment(t *testing.T) {
	settleIn(t, byChain, func(_ *testing.T, s *settling) {
		s.chain.mu.refuse = 1_000
		s.buy(paychan.BuyOptions{Payment: s.paid(s.payer, 1, 1, 10)})
		s.wait(2 * time.Minute)
		s.chain.mu.refuse = 0
		s.buy(paychan.BuyOptions{Payment: s.paid(s.payer, 1, 2, 20)})
		s.wait(20 * time.Second)
		s.settled(20) // amounts are cumulative, so nothing is lost
	})
}

// TestSettleContinuesPastFailures checks that failures do not prevent the collection of later
// payments, however many fail.
func TestSettleContinuesPastFailures(t *testing.T) {
	s := newShop(t)
	payer := newPayer(t, 1)
	good := map[string]bool{}
	for i := range 205 {
		number := uint64(1 + i)
		c := s.open(payer.address(), int64(number))
		m := promise(s.clock.Now(), number, 1, 3)
		m.Expiration += uint64(i)
		p, err := s.Verify(payer.sign(t, m))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.PayRead(t.Context(), p, 1, ""); err != nil {
			t.Fatal(err)
		}
		good[c.ID] = i == 50 || i >= 201
	}
	var mu sync.Mutex
	asked := map[string]int{}
	err := s.Settle(t.Context(), func(ctx context.Context, p metastore.Settlement) error {
		mu.Lock()
		asked[p.Channel]++
		mu.Unlock()
		if !good[p.Channel] {
			return errChain
		}
		return s.meta.Collect(ctx, p)
	})
	if !errors.Is(err, errChain) {
		t.Errorf("error %v, want %v", err, errChain)
	}
	for id, ok := range good {
		if got := s.channel(id).Settled == 3; got != ok {
			t.Errorf("channel %.6s is settled: %t, want %t", id, got, ok)
		}
		if asked[id] != 1 {
			t.Errorf("channel %.6s was tried %d times, want 1", id, asked[id])
		}
		if t.Failed() {
			break
		}
	}
	s.audit()
}

func TestSettleCollectsMoreThanABatch(t *testing.T) {
	s := newShop(t)
	payer := newPayer(t, 1)
	for i := range 205 {
		s.open(payer.address(), int64(i))
		if _, err := s.PayRead(t.Context(), s.paid(payer, uint64(i), 1, 3), 1, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Settle(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if pending := s.pending(); len(pending) > 0 {
		t.Errorf("%d are still pending", len(pending))
	}
	s.audit()
}

// refusingLedger refuses to pay out for one channel.
type refusingLedger struct {
	paychan.Store
	channel string
}

func (l refusingLedger) PayOut(ctx context.Context, list []metastore.Settlement) error {
	for _, one := range list {
		if one.Channel == l.channel {
			return errChain
		}
	}
	return l.Store.PayOut(ctx, list)
}

// TestLedgerContinuesAfterARefusal checks that one payment that the ledger refuses does not prevent
// the others of its batch from being paid out.
func TestLedgerContinuesAfterARefusal(t *testing.T) {
	s := newShop(t)
	payer := newPayer(t, 1)
	var ids []string
	for i := range 30 {
		ids = append(ids, s.open(payer.address(), int64(i)).ID)
		if _, err := s.PayRead(t.Context(), s.paid(payer, uint64(i), 1, 3), 1, ""); err != nil {
			t.Fatal(err)
		}
	}
	service, err := paychan.New(refusingLedger{s.meta, ids[7]}, s.opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := service.Settle(t.Context(), nil); !errors.Is(err, errChain) {
		t.Errorf("error %v, want %v", err, errChain)
	}
	for i, id := range ids {
		if settled := s.channel(id).Settled == 3; settled != (i != 7) {
			t.Errorf("channel %d is settled: %t", i, settled)
		}
	}
	s.audit()
}

// countingLedger counts the calls of PayOut, and fails them if it has an error.
type countingLedger struct {
	paychan.Store
	err   error
	calls int
}

func (l *countingLedger) PayOut(ctx context.Context, list []metastore.Settlement) error {
	l.calls++
	if l.err != nil {
		return l.err
	}
	return l.Store.PayOut(ctx, list)
}

// TestLedgerBatches checks that a batch is one transaction, and that its settlements are tried
// separately only after a refusal, so that an outage does not multiply the number of calls.
func TestLedgerBatches(t *testing.T) {
	for err, want := range map[error]int{nil: 1, metastore.ErrUnavailable: 1, metastore.ErrUnknownOutcome: 1, errChain: 4} {
		s := newShop(t)
		payer := newPayer(t, 1)
		for i := range 3 {
			s.open(payer.address(), int64(i))
			if _, err := s.PayRead(t.Context(), s.paid(payer, uint64(i), 1, 3), 1, ""); err != nil {
				t.Fatal(err)
			}
		}
		ledger := &countingLedger{Store: s.meta, err: err}
		service, newErr := paychan.New(ledger, s.opt)
		if newErr != nil {
			t.Fatal(newErr)
		}
		if got := service.Settle(t.Context(), nil); !errors.Is(got, err) || ledger.calls != want {
			t.Errorf("after %v: %d calls and error %v, want %d calls", err, ledger.calls, got, want)
		}
	}
}

// TestLedgerAcceptsARepetition checks that the embedded ledger satisfies the contract of Settler,
// also if its caller forgets a result.
func TestLedgerAcceptsARepetition(t *testing.T) {
	forgetful := func(s *settling) paychan.Settler {
		forgets := 2
		return func(ctx context.Context, p metastore.Settlement) error {
			err := s.meta.Collect(ctx, p)
			if err == nil && forgets > 0 {
				forgets--
				err = fmt.Errorf("settled, but: %w", errChain)
			}
			return err
		}
	}
	settleIn(t, forgetful, func(t *testing.T, s *settling) {
		s.buy(paychan.BuyOptions{Payment: s.paid(s.payer, 1, 1, 10)})
		s.wait(10 * time.Second)
		s.settled(10)
		s.buy(paychan.BuyOptions{Payment: s.paid(s.payer, 1, 2, 16)})
		s.wait(10 * time.Second)
		s.settled(16)
		if len(s.reports) != 2 {
			t.Errorf("%d reports, want 2", len(s.reports))
		}
	})
}

// TestRunEndsWithItsContext checks that Run returns also in the middle of a settlement, which does
// not count as a failure and is tried again by the next Run.
func TestRunEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meta.db")
	synctest.Test(t, func(t *testing.T) {
		s := &shop{t: t, path: path, opt: options(), now: time.Now}
		s.start()
		defer s.stop()
		payer := newPayer(t, 1)
		c := s.open(payer.address(), 1)
		s.buy(paychan.BuyOptions{Payment: s.paid(payer, 1, 1, 10)})
		run := func(settle paychan.Settler, d time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			s.Run(ctx, settle, func(run task.Run) {
				if run.Err != nil {
					t.Errorf("report %v", run.Err)
				}
			})
		}
		run(func(ctx context.Context, _ metastore.Settlement) error {
			<-ctx.Done()
			return ctx.Err()
		}, 5*time.Second)
		if got := s.channel(c.ID); got.Settled != 0 {
			t.Errorf("%d is settled", got.Settled)
		}
		run(nil, 5*time.Second)
		if got := s.channel(c.ID); got.Settled != 10 {
			t.Errorf("%d is settled, want 10", got.Settled)
		}
		s.audit()
	})
}

// TestFailuresAreCounted checks that an error lists ten failures, and the number of the others.
func TestFailuresAreCounted(t *testing.T) {
	for n, want := range map[int]string{10: "", 12: "and 2 failures more"} {
		s := newShop(t)
		for i := range n {
			payer := newPayer(t, byte(i+1))
			s.open(payer.address(), 1)
			s.buy(paychan.BuyOptions{Payment: s.paid(payer, 1, 1, 3)})
		}
		err := s.Settle(t.Context(), func(context.Context, metastore.Settlement) error { return errChain })
		if err == nil || strings.Count(err.Error(), errChain.Error()) != 10 {
			t.Fatalf("of %d failures: %v", n, err)
		}
		if _, more, _ := strings.Cut(err.Error(), "and "); (want == "") != (more == "") || !strings.Contains(err.Error(), want) {
			t.Errorf("of %d failures: %v, want %q", n, err, want)
		}
	}
}

// forgetfulStore fails to list pending settlements.
type forgetfulStore struct{ paychan.Store }

func (forgetfulStore) Settlements(context.Context, metastore.Settlement, int) ([]metastore.Settlement, error) {
	return nil, errChain
}

// TestRunReportsThatItCannotList checks that an error of the store in listing pending settlements
// is reported.
func TestRunReportsThatItCannotList(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meta.db")
	synctest.Test(t, func(t *testing.T) {
		s := &shop{t: t, path: path, opt: options(), now: time.Now}
		s.start()
		defer s.stop()
		service, err := paychan.New(forgetfulStore{s.meta}, s.opt)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		reported := make(chan error, 100)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			service.Run(ctx, func(context.Context, metastore.Settlement) error { return nil }, func(run task.Run) {
				if run.Err != nil {
					reported <- run.Err
				}
			})
		}()
		select {
		case err := <-reported:
			if !errors.Is(err, errChain) {
				t.Errorf("reported: %v, want %v", err, errChain)
			}
		case <-time.After(30 * time.Second):
			t.Error("nothing is reported")
		}
		cancel()
		<-ended
	})
}
