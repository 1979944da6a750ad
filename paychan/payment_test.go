package paychan_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"sluice/database"
	"sluice/internal/testenv"
	"sluice/ledger"
	"sluice/paychan"
)

func TestBuySellsWhatIsCovered(t *testing.T) {
	s := newShop(t)
	payer := newPayer(t, 1)
	c := s.open(payer.address(), 1)
	sold := int64(0)
	for _, step := range []struct{ sequence, amount, chunksets, credit int64 }{
		{0, 10, 3, 1},  // the first payment may have number 0
		{5, 12, 1, 0},  // 2 and the credit of 1
		{6, 15, 1, 0},  // exactly the price
		{7, 20, 1, 2},  // 5
		{99, 21, 1, 0}, // 1 and the credit of 2
		{100, 121, 33, 1},
	} {
		p := s.paid(payer, 1, uint64(step.sequence), uint64(step.amount))
		got := s.buy(paychan.BuyOptions{Payment: p, UserIdentity: "me"})
		want := ledger.Session{
			ID: got.ID, UserIdentity: "me", Channel: c.ID, Total: step.chunksets, Left: step.chunksets,
			Created: s.clock.Now(), Expires: s.clock.Now().Add(sessionTTL),
		}
		if got.ID == "" || got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		sold += step.chunksets
		now := s.channel(c.ID)
		if now.Accepted != step.amount || now.Sequence != step.sequence || now.Credit != step.credit || !bytes.Equal(now.Proof, p.Proof) {
			t.Errorf("after %+v: %+v", step, now)
		}
		if sold*3+now.Credit != now.Accepted {
			t.Errorf("%d chunksets and a credit of %d for %d units", sold, now.Credit, now.Accepted)
		}
		s.clock.Advance(time.Second)
	}
	if got := s.sessions(c.ID); len(got) != 6 || got[0].Total != 33 || got[5].Total != 3 {
		t.Errorf("the channel's sessions, the newest first: %+v", got)
	}
	s.audit()
}

func TestRefill(t *testing.T) {
	ctx := t.Context()
	s := newShop(t)
	payer, other := newPayer(t, 1), newPayer(t, 2)
	c := s.open(payer.address(), 1)
	s.open(other.address(), 1)
	first := s.buy(paychan.BuyOptions{Payment: s.paid(payer, 1, 1, 10), UserIdentity: "me"})
	if _, err := s.meta.UseSession(ctx, first.ID, 2, nil); err != nil {
		t.Fatal(err)
	}
	s.clock.Advance(time.Minute)
	got := s.buy(paychan.BuyOptions{Payment: s.paid(payer, 1, 2, 20), UserIdentity: "you", SessionID: first.ID})
	want := first
	want.Total, want.Left, want.Used = 6, 4, 2
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	// Over another channel too, the session still belongs to the first one.
	got = s.buy(paychan.BuyOptions{Payment: s.paid(other, 1, 1, 3), SessionID: first.ID})
	want.Total, want.Left = 7, 5
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if list := s.sessions(c.ID); len(list) != 1 || list[0] != want {
		t.Errorf("%+v, want %+v", list, want)
	}
	s.audit()
}

func TestRefillOfMissingOrExpiredSessions(t *testing.T) {
	s := newShop(t)
	payer := newPayer(t, 1)
	c := s.open(payer.address(), 1)
	bought := s.buy(paychan.BuyOptions{Payment: s.paid(payer, 1, 1, 3)})
	refill := func(id string) func() error {
		return func() error {
			_, err := s.Buy(t.Context(), paychan.BuyOptions{Payment: s.paid(payer, 1, 2, 6), SessionID: id}, nil)
			return err
		}
	}
	s.unchanged(c.ID, database.ErrNotFound, refill("unknown"))
	s.clock.Advance(sessionTTL)
	s.unchanged(c.ID, database.ErrExpired, refill(bought.ID))
	s.clock.Advance(ledger.SessionRetention)
	s.unchanged(c.ID, database.ErrNotFound, refill(bought.ID))
}

// buying and reading are the two ways to spend a micropayment.
func (s *shop) spend() map[string]func(ledger.Payment) error {
	return map[string]func(ledger.Payment) error{
		"buy": func(p ledger.Payment) error {
			_, err := s.Buy(s.t.Context(), paychan.BuyOptions{Payment: p}, nil)
			return err
		},
		"read": func(p ledger.Payment) error {
			_, err := s.PayRead(s.t.Context(), p, 1, "")
			return err
		},
	}
}

func TestStalePayments(t *testing.T) {
	s := newShop(t)
	payer := newPayer(t, 1)
	c := s.open(payer.address(), 1)
	s.buy(paychan.BuyOptions{Payment: s.paid(payer, 1, 0, 10)})
	s.unchanged(c.ID, &ledger.StaleError{Stored: s.channel(c.ID).Proof}, func() error {
		return s.spend()["buy"](s.paid(payer, 1, 0, 20)) // a second number 0
	})
	accepted := s.paid(payer, 1, 5, 20)
	s.buy(paychan.BuyOptions{Payment: accepted})
	stale := &ledger.StaleError{Stored: accepted.Proof}
	for way, spend := range s.spend() {
		for name, p := range map[string]ledger.Payment{
			"the same again":               accepted,
			"both lower":                   s.paid(payer, 1, 4, 15),
			"sequence up, amount the same": s.paid(payer, 1, 6, 20),
			"sequence up, amount down":     s.paid(payer, 1, 6, 19),
			"amount up, sequence the same": s.paid(payer, 1, 5, 30),
			"amount up, sequence down":     s.paid(payer, 1, 4, 30),
			"above the deposit as well":    s.paid(payer, 1, 5, 1_001),
		} {
			t.Run(way+"/"+name, func(t *testing.T) {
				s.on(t).unchanged(c.ID, stale, func() error { return spend(p) })
			})
		}
	}
}

func TestNotCovered(t *testing.T) {
	s := newShop(t)
	payer := newPayer(t, 1)
	c := s.open("", 1)
	ways := s.spend()
	for name, spend := range ways {
		t.Run(name, func(t *testing.T) { // the channel stays unbound
			s := s.on(t)
			s.unchanged(c.ID, &ledger.InsufficientFundsError{Required: 3, Available: 2}, func() error { return spend(s.paid(payer, 1, 1, 2)) })
			s.unchanged(c.ID, &ledger.InsufficientFundsError{Required: 1_001, Available: 1_000}, func() error { return spend(s.paid(payer, 1, 1, 1_001)) })
		})
	}
	s.buy(paychan.BuyOptions{Payment: s.paid(payer, 1, 1, 4)})
	for name, spend := range ways {
		t.Run(name+" with credit", func(t *testing.T) {
			s := s.on(t)
			s.unchanged(c.ID, &ledger.InsufficientFundsError{Required: 3, Available: 2}, func() error { return spend(s.paid(payer, 1, 2, 5)) })
		})
	}
	s.unchanged(c.ID, &ledger.InsufficientFundsError{Required: 12, Available: 11}, func() error {
		_, err := s.PayRead(t.Context(), s.paid(payer, 1, 2, 14), 4, "")
		return err
	})
	// With a larger deposit the same micropayment is accepted, to the last unit.
	most := s.paid(payer, 1, 2, 1_001)
	if _, err := s.Deposit(t.Context(), c.ID, 1, nil); err != nil {
		t.Fatal(err)
	}
	if got := s.buy(paychan.BuyOptions{Payment: most}); got.Total != 332 {
		t.Errorf("%+v", got)
	}
	s.audit()
}

func TestFirstPaymentOfZero(t *testing.T) {
	s := newShop(t)
	payer := newPayer(t, 1)
	c := s.open(payer.address(), 1)
	for _, spend := range s.spend() {
		s.unchanged(c.ID, &ledger.StaleError{}, func() error { return spend(s.paid(payer, 1, 1, 0)) })
	}
}

func TestNoNumberOverflows(t *testing.T) {
	ctx := t.Context()
	t.Run("a session's total", func(t *testing.T) {
		s := newShop(t, price(1), deposit(math.MaxInt64), unsettledLimit(math.MaxInt64))
		payer := newPayer(t, 1)
		s.open(payer.address(), 1)
		other := s.open(payer.address(), 2)
		full := s.buy(paychan.BuyOptions{Payment: s.paid(payer, 1, 1, math.MaxInt64)})
		if full.Total != math.MaxInt64 {
			t.Errorf("%+v", full)
		}
		s.unchanged(other.ID, ledger.ErrAmountOverflow, func() error {
			_, err := s.Buy(ctx, paychan.BuyOptions{Payment: s.paid(payer, 2, 1, 1), SessionID: full.ID}, nil)
			return err
		})
	})
	t.Run("count times price", func(t *testing.T) {
		s := newShop(t, price(1<<62), deposit(math.MaxInt64), unsettledLimit(math.MaxInt64))
		payer := newPayer(t, 1)
		c := s.open(payer.address(), 1)
		for _, count := range []int64{2, 4, 5, math.MaxInt64} { // 4 times the price is 0, modulo 2^64
			s.unchanged(c.ID, &ledger.InsufficientFundsError{Required: math.MaxInt64, Available: math.MaxInt64}, func() error {
				_, err := s.PayRead(ctx, s.paid(payer, 1, 1, math.MaxInt64), count, "")
				return err
			})
		}
		got, err := s.PayRead(ctx, s.paid(payer, 1, 1, math.MaxInt64), 1, "")
		if err != nil || got.Credit != math.MaxInt64-1<<62 {
			t.Errorf("%+v, %v", got, err)
		}
		before := s.channel(c.ID)
		for _, count := range []int64{2, 4, math.MaxInt64} {
			if _, err := s.Return(ctx, c.ID, count, s.Price(), "r"); err == nil {
				t.Errorf("%d chunksets are returned, of one", count)
			}
		}
		if after := s.channel(c.ID); !reflect.DeepEqual(after, before) {
			t.Errorf("%+v, want %+v", after, before)
		}
		s.audit()
	})
}

func TestNoCountBelow1(t *testing.T) {
	s := newShop(t)
	payer := newPayer(t, 1)
	c := s.open(payer.address(), 1)
	s.buy(paychan.BuyOptions{Payment: s.paid(payer, 1, 1, 300)})
	before := s.channel(c.ID)
	for _, count := range []int64{0, -1, math.MinInt64} {
		if _, err := s.PayRead(t.Context(), s.paid(payer, 1, 2, 301), count, ""); err == nil {
			t.Errorf("%d chunksets are read", count)
		}
		if _, err := s.Return(t.Context(), c.ID, count, s.Price(), "r"); err == nil {
			t.Errorf("%d chunksets are returned", count)
		}
	}
	if after := s.channel(c.ID); !reflect.DeepEqual(after, before) {
		t.Errorf("%+v, want %+v", after, before)
	}
	s.audit()
}

func TestUnboundChannelIsBoundToTheFirstPayer(t *testing.T) {
	ctx := t.Context()
	for _, way := range []string{"buy", "read"} {
		t.Run(way, func(t *testing.T) {
			s := newShop(t)
			first, second := newPayer(t, 1), newPayer(t, 2)
			c := s.open("", 1)
			for _, p := range []payer{first, second} {
				if err := s.Live(ctx, s.paid(p, 1, 1, 3)); err != nil {
					t.Errorf("an unbound channel accepts any payer: %v", err)
				}
			}
			testenv.OK(t, s.spend()[way](s.paid(first, 1, 1, 3)))
			if got := s.channel(c.ID); got.Sender != first.address() {
				t.Errorf("sender %s, want %s", got.Sender, first.address())
			}
			s.unchanged(c.ID, ledger.ErrNoChannel, func() error { return s.spend()[way](s.paid(second, 1, 2, 6)) })
			if err := s.Live(ctx, s.paid(second, 1, 2, 6)); !errors.Is(err, ledger.ErrNoChannel) {
				t.Errorf("for another payer: %v", err)
			}
			// Now another payer may open a channel with the number.
			s.open(second.address(), 1)
			s.unchanged(c.ID, nil, func() error { return s.Live(ctx, s.paid(second, 1, 2, 6)) })
		})
	}
}

func TestOtherPartiesAreOtherChannels(t *testing.T) {
	s := newShop(t)
	payer := newPayer(t, 1)
	c := s.open(payer.address(), 1)
	good := s.paid(payer, 1, 1, 3)
	for name, change := range map[string]func(*ledger.Payment){
		"sender":   func(p *ledger.Payment) { p.Sender = canonical("0x1") },
		"receiver": func(p *ledger.Payment) { p.Receiver = canonical("0x1") },
		"asset":    func(p *ledger.Payment) { p.Asset = canonical("0x1") },
		"number":   func(p *ledger.Payment) { p.PaymentChannelID = 2 },
	} {
		p := good
		change(&p)
		t.Run(name, func(t *testing.T) {
			s := s.on(t)
			s.unchanged(c.ID, ledger.ErrNoChannel, func() error { return s.Live(t.Context(), p) })
			for _, spend := range s.spend() {
				s.unchanged(c.ID, ledger.ErrNoChannel, func() error { return spend(p) })
			}
		})
	}
	if err := s.Live(t.Context(), good); err != nil {
		t.Error(err)
	}
}

func TestUnsettledLimit(t *testing.T) {
	s := newShop(t, unsettledLimit(10))
	payer := newPayer(t, 1)
	c := s.open(payer.address(), 1)
	for _, spend := range s.spend() {
		s.unchanged(c.ID, ledger.ErrUnsettledLimit, func() error { return spend(s.paid(payer, 1, 1, 11)) })
	}
	s.buy(paychan.BuyOptions{Payment: s.paid(payer, 1, 1, 10)})
	next := s.paid(payer, 1, 2, 20)
	for _, spend := range s.spend() {
		s.unchanged(c.ID, ledger.ErrUnsettledLimit, func() error { return spend(next) })
	}
	testenv.OK(t, s.Settle(t.Context()))
	s.buy(paychan.BuyOptions{Payment: next})
	if got := s.channel(c.ID); got.Accepted != 20 || got.Settled != 10 {
		t.Errorf("%+v", got)
	}
	s.audit()
}

func TestClosedAndExpiredChannels(t *testing.T) {
	ctx := t.Context()
	for name, c := range map[string]struct {
		end  func(t *testing.T, s *shop, id string)
		want error
	}{
		"expired": {func(_ *testing.T, s *shop, _ string) { s.clock.Advance(paychan.DefaultTTL) }, ledger.ErrChannelExpired},
		"closed": {func(t *testing.T, s *shop, id string) {
			if _, err := s.Close(ctx, id); err != nil {
				t.Fatal(err)
			}
		}, ledger.ErrChannelClosed},
		"closed, then expired": {func(t *testing.T, s *shop, id string) {
			if _, err := s.Close(ctx, id); err != nil {
				t.Fatal(err)
			}
			s.clock.Advance(paychan.DefaultTTL)
		}, ledger.ErrChannelClosed},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			payer := newPayer(t, 1)
			channel := s.open(payer.address(), 1)
			if _, err := s.PayRead(ctx, s.paid(payer, 1, 1, 10), 2, ""); err != nil {
				t.Fatal(err)
			}
			c.end(t, s, channel.ID)
			p := s.paid(payer, 1, 2, 20)
			for _, spend := range s.spend() {
				s.unchanged(channel.ID, c.want, func() error { return spend(p) })
			}
			s.unchanged(channel.ID, c.want, func() error { return s.Live(ctx, p) })
			s.unchanged(channel.ID, c.want, func() error {
				_, err := s.Deposit(ctx, channel.ID, 1, nil)
				return err
			})
			// A chunkset that was not served is still returned.
			if got, err := s.Return(ctx, channel.ID, 2, s.Price(), "r"); err != nil || got.Credit != 10 {
				t.Errorf("%+v, %v", got, err)
			}
			s.audit()
		})
	}
}

func TestPayReadKeepsTheSurplus(t *testing.T) {
	ctx := t.Context()
	s := newShop(t)
	payer := newPayer(t, 1)
	c := s.open(payer.address(), 1)
	p := s.paid(payer, 1, 0, 10)
	got, err := s.PayRead(ctx, p, 2, "")
	want := c
	want.Accepted, want.Sequence, want.Proof, want.Credit = 10, 0, p.Proof, 4
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v, want %+v", got, err, want)
	}
	if now := s.channel(c.ID); !reflect.DeepEqual(now, want) {
		t.Errorf("%+v, want %+v", now, want)
	}
	if list := s.sessions(c.ID); len(list) != 0 {
		t.Errorf("a read creates no session: %+v", list)
	}
	// Credit from a read pays for a session, and the reverse.
	if got := s.buy(paychan.BuyOptions{Payment: s.paid(payer, 1, 1, 12)}); got.Total != 2 {
		t.Errorf("%+v", got)
	}
	s.buy(paychan.BuyOptions{Payment: s.paid(payer, 1, 2, 17)})
	if got, err := s.PayRead(ctx, s.paid(payer, 1, 3, 18), 1, ""); err != nil || got.Credit != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	s.audit()
}

func TestReturnCountsOnce(t *testing.T) {
	ctx := t.Context()
	s := newShop(t)
	payer := newPayer(t, 1)
	c := s.open(payer.address(), 1)
	if _, err := s.PayRead(ctx, s.paid(payer, 1, 1, 100), 33, ""); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		request string
		count   int64
		credit  int64
	}{{"a", 10, 31}, {"a", 10, 31}, {"b", 10, 61}, {"a", 10, 61}, {"b", 10, 61}, {"c", 13, 100}} {
		got, err := s.Return(ctx, c.ID, step.count, s.Price(), step.request)
		if err != nil || got.Credit != step.credit || got.Accepted != 100 {
			t.Errorf("%+v: %+v, %v", step, got, err)
		}
	}
	before := s.channel(c.ID)
	if _, err := s.Return(ctx, c.ID, 1, s.Price(), "d"); err == nil {
		t.Error("more was returned than was sold")
	}
	if after := s.channel(c.ID); !reflect.DeepEqual(after, before) {
		t.Errorf("%+v, want %+v", after, before)
	}
	if _, err := s.Return(ctx, "unknown", 1, s.Price(), "a"); !errors.Is(err, database.ErrNotFound) {
		t.Errorf("to an unknown channel: %v", err)
	}
	// Returned credit can be spent again.
	if got := s.buy(paychan.BuyOptions{Payment: s.paid(payer, 1, 2, 102)}); got.Total != 34 {
		t.Errorf("%+v", got)
	}
	s.audit()
}

func TestLostResponseIsFound(t *testing.T) {
	ctx := t.Context()
	s := newShop(t)
	payer := newPayer(t, 1)
	c := s.open(payer.address(), 1)
	idem := &ledger.Idempotency{Scope: "buy", Key: "k", Hash: [32]byte{1}}
	p := s.paid(payer, 1, 1, 10)
	poor := p
	poor.Amount = 2
	s.unchanged(c.ID, ledger.ErrInsufficientFunds, func() error { // a refusal is not recorded
		_, err := s.Buy(ctx, paychan.BuyOptions{Payment: poor}, idem)
		return err
	})
	lost, err := s.Buy(ctx, paychan.BuyOptions{Payment: p, UserIdentity: "me"}, idem)
	testenv.OK(t, err)
	recovered := func() {
		t.Helper()
		s.unchanged(c.ID, nil, func() error {
			got, err := s.Buy(ctx, paychan.BuyOptions{Payment: p, UserIdentity: "me"}, idem)
			if err == nil && got != lost {
				t.Errorf("by key: %+v, want %+v", got, lost)
			}
			return err
		})
		if list := s.sessions(c.ID); len(list) != 1 || list[0].ID != lost.ID {
			t.Errorf("by channel: %+v, want %s", list, lost.ID)
		}
	}
	recovered()
	s.unchanged(c.ID, ledger.ErrIdempotencyReuse, func() error {
		_, err := s.Buy(ctx, paychan.BuyOptions{Payment: p}, &ledger.Idempotency{Scope: "buy", Key: "k", Hash: [32]byte{2}})
		return err
	})
	s.unchanged(c.ID, &ledger.StaleError{Stored: p.Proof}, func() error {
		_, err := s.Buy(ctx, paychan.BuyOptions{Payment: p}, nil)
		return err
	})
	if _, err := s.Close(ctx, c.ID); err != nil {
		t.Fatal(err)
	}
	s.stop()
	s.start()
	recovered()
}

func TestCancelledContextBuysNothing(t *testing.T) {
	s := newShop(t)
	payer := newPayer(t, 1)
	c := s.open(payer.address(), 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := s.paid(payer, 1, 1, 3)
	s.unchanged(c.ID, context.Canceled, func() error {
		_, err := s.Buy(ctx, paychan.BuyOptions{Payment: p}, nil)
		return err
	})
	s.unchanged(c.ID, context.Canceled, func() error {
		_, err := s.PayRead(ctx, p, 1, "")
		return err
	})
}

// TestStats counts what succeeds, and nothing else.
func TestStats(t *testing.T) {
	s, p := newShop(t), newPayer(t, 1)
	c := s.open(p.address(), 1)
	s.buy(paychan.BuyOptions{Payment: s.paid(p, 1, 1, 10)})
	for range 2 { // the second is stale
		if _, err := s.PayRead(t.Context(), s.paid(p, 1, 2, 12), 1, ""); err != nil && !errors.Is(err, ledger.ErrStalePayment) {
			t.Error(err)
		}
	}
	if err := s.Settle(t.Context()); err != nil {
		t.Error(err)
	}
	if got, want := s.Stats(), (paychan.Stats{Opened: 1, Purchases: 1, Reads: 1, Settled: 1, Verified: 3}); got != want {
		t.Errorf("counted %+v, want %+v (channel %s)", got, want, c.ID)
	}
}
