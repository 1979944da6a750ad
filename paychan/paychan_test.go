package paychan_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"sluice/database"
	"sluice/internal/testenv"
	"sluice/ledger"
	"sluice/micropay"
	"sluice/paychan"
)

func TestNewRefuses(t *testing.T) {
	for name, change := range map[string]func(*paychan.Options){
		"a price of 0":     price(0),
		"a negative price": price(-1),
		"no receiver":      func(o *paychan.Options) { o.Receiver = "" },
		"a named asset":    func(o *paychan.Options) { o.Asset = "coin" },
		"no module":        func(o *paychan.Options) { o.Module = "" },

		"sessions without a lifetime": func(o *paychan.Options) { o.SessionTTL = 0 },
		"a limit that is too low":     unsettledLimit(0),
	} {
		opt := options()
		change(&opt)
		if _, err := paychan.New(nil, opt); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// TestLeastOptions checks the minimal valid options.
func TestLeastOptions(t *testing.T) {
	opt := options()
	opt.Price, opt.UnsettledLimit, opt.SessionTTL = 1, 1, 1
	if _, err := paychan.New(nil, opt); err != nil {
		t.Error(err)
	}
}

// lostResults is a store that opens channels and sells sessions, but loses the results.
type lostResults struct{ paychan.Store }

// OpenChannel opens a channel, and returns an unknown outcome.
func (s lostResults) OpenChannel(ctx context.Context, c ledger.Channel, idem *ledger.Idempotency) (ledger.Channel, error) {
	if _, err := s.Store.OpenChannel(ctx, c, idem); err != nil {
		return ledger.Channel{}, err
	}
	return ledger.Channel{}, database.ErrUnknownOutcome
}

// Buy sells a session, and returns an unknown outcome.
func (s lostResults) Buy(ctx context.Context, p ledger.Purchase, idem *ledger.Idempotency) (ledger.Session, error) {
	if _, err := s.Store.Buy(ctx, p, idem); err != nil {
		return ledger.Session{}, err
	}
	return ledger.Session{}, database.ErrUnknownOutcome
}

// TestUnknownOutcomes checks that without an idempotency key the ID is returned by which a channel
// or a session can be looked up. With a key it may be another one, made before, so no ID is
// returned.
func TestUnknownOutcomes(t *testing.T) {
	s := newShop(t)
	service, err := paychan.New(lostResults{s.meta}, s.opt)
	testenv.OK(t, err)
	key := &ledger.Idempotency{Scope: "scope", Key: "k"}

	opened, err := service.Open(t.Context(), paychan.OpenOptions{}, nil)
	if !errors.Is(err, database.ErrUnknownOutcome) || opened.ID == "" || !reflect.DeepEqual(opened, ledger.Channel{ID: opened.ID}) {
		t.Errorf("opened: %+v, %v, want an ID alone", opened, err)
	}
	s.channel(opened.ID)
	opened, err = service.Open(t.Context(), paychan.OpenOptions{}, key)
	if !errors.Is(err, database.ErrUnknownOutcome) || opened.ID != "" {
		t.Errorf("opened with a key: %+v, %v, want none", opened, err)
	}

	payer := newPayer(t, 1)
	s.open(payer.address(), 1)
	bought, err := service.Buy(t.Context(), paychan.BuyOptions{Payment: s.paid(payer, 1, 1, 3)}, nil)
	if !errors.Is(err, database.ErrUnknownOutcome) || bought.ID == "" || bought != (ledger.Session{ID: bought.ID}) {
		t.Errorf("bought: %+v, %v, want an ID alone", bought, err)
	}
	if found, err := s.meta.Session(t.Context(), bought.ID); err != nil || found.Left != 1 {
		t.Errorf("the session: %+v, %v", found, err)
	}
	bought, err = service.Buy(t.Context(), paychan.BuyOptions{Payment: s.paid(payer, 1, 2, 6)}, &ledger.Idempotency{Scope: "buy", Key: "k"})
	if !errors.Is(err, database.ErrUnknownOutcome) || bought != (ledger.Session{}) {
		t.Errorf("bought with a key: %+v, %v, want none", bought, err)
	}
}

func TestDefaultsAreAddresses(t *testing.T) {
	opt := options()
	opt.Receiver, opt.Asset, opt.Module = paychan.NewReceiver(), paychan.DefaultAsset, paychan.DefaultModule
	opt.Price = paychan.DefaultPrice
	s, err := paychan.New(nil, opt)
	testenv.OK(t, err)
	if s.Price() != paychan.DefaultPrice {
		t.Errorf("price %d", s.Price())
	}
	for _, text := range []string{opt.Receiver, opt.Asset, opt.Module} {
		if a, err := micropay.ParseAddress(text); err != nil || a.String() != text {
			t.Errorf("%s is not canonical: %v, %v", text, a, err)
		}
	}
	if paychan.NewReceiver() == opt.Receiver {
		t.Error("two receivers are the same")
	}
}

func TestOpenFillsInDefaults(t *testing.T) {
	s := newShop(t)
	c, err := s.Open(t.Context(), paychan.OpenOptions{}, nil)
	testenv.OK(t, err)
	want := ledger.Channel{
		ID: c.ID, PaymentChannelID: c.PaymentChannelID, Receiver: canonical(receiver), Asset: canonical(asset), Deposit: 1_000,
		Created: s.clock.Now(), Expires: s.clock.Now().Add(paychan.DefaultTTL),
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("%+v, want %+v", c, want)
	}
	if c.PaymentChannelID < 0 || c.PaymentChannelID >= 1<<53 {
		t.Errorf("payment channel id %d", c.PaymentChannelID)
	}
}

func TestOpenUsesItsOptions(t *testing.T) {
	ctx := t.Context()
	s := newShop(t)
	none, id := int64(0), int64(42)
	asked := paychan.OpenOptions{Sender: "0x1", Asset: "0x2", Deposit: &none, PaymentChannelID: &id, Expires: s.clock.Now().Add(time.Hour)}
	c, err := s.Open(ctx, asked, nil)
	if err != nil || c.Sender != "0x1" || c.Asset != "0x2" || c.Deposit != 0 || c.PaymentChannelID != 42 || !c.Expires.Equal(asked.Expires) {
		t.Fatalf("%+v, %v", c, err)
	}
	if _, err := s.Open(ctx, asked, nil); !errors.Is(err, database.ErrExists) {
		t.Errorf("a second channel of the same parties: %v", err)
	}
	asked.Expires = s.clock.Now()
	if _, err := s.Open(ctx, asked, nil); !errors.Is(err, paychan.ErrExpiryPast) {
		t.Errorf("a channel that has expired: %v", err)
	}
}

func TestOpenWithSimilarChannels(t *testing.T) {
	for name, c := range map[string]struct {
		first, second string
		want          error
	}{
		"the same sender":      {"0x1", "0x1", database.ErrExists},
		"another sender":       {"0x1", "0x2", nil},
		"unbound after bound":  {"0x1", "", database.ErrExists},
		"bound after unbound":  {"", "0x1", database.ErrExists},
		"unbound both of them": {"", "", database.ErrExists},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			s.open(c.first, 7)
			number := int64(7)
			if _, err := s.Open(t.Context(), paychan.OpenOptions{Sender: c.second, PaymentChannelID: &number}, nil); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			s.open(c.second, 8)
		})
	}
}

func TestRepeatedOpenIsOneChannel(t *testing.T) {
	s := newShop(t)
	idem := &ledger.Idempotency{Scope: "open", Key: "k"}
	first, err := s.Open(t.Context(), paychan.OpenOptions{}, idem)
	testenv.OK(t, err)
	if again, err := s.Open(t.Context(), paychan.OpenOptions{}, idem); err != nil || !reflect.DeepEqual(again, first) {
		t.Errorf("%+v, %v, want %+v", again, err, first)
	}
}

func TestStateOfAChannel(t *testing.T) {
	s := newShop(t)
	c, err := s.Open(t.Context(), paychan.OpenOptions{Expires: s.clock.Now().Add(time.Hour)}, nil)
	testenv.OK(t, err)
	s.clock.Advance(time.Hour - time.Microsecond)
	if got := s.State(c); got != ledger.ChannelOpen {
		t.Errorf("state %s before its expiry", got)
	}
	s.clock.Advance(time.Microsecond)
	if got := s.State(c); got != ledger.ChannelExpired {
		t.Errorf("state %s at its expiry", got)
	}
	if c, err = s.Close(t.Context(), c.ID); err != nil || s.State(c) != ledger.ChannelClosed {
		t.Errorf("closed when expired: %s, %v", s.State(c), err)
	}
}

func TestDeposit(t *testing.T) {
	ctx := t.Context()
	s := newShop(t)
	c := s.open("", 1)
	idem := &ledger.Idempotency{Scope: "deposit", Key: "k"}
	for range 2 {
		got, err := s.Deposit(ctx, c.ID, 11, idem)
		if err != nil || got.Deposit != 1_011 {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	s.unchanged(c.ID, ledger.ErrIdempotencyReuse, func() error {
		_, err := s.Deposit(ctx, c.ID, 12, &ledger.Idempotency{Scope: "deposit", Key: "k", Hash: [32]byte{1}})
		return err
	})
	s.unchanged(c.ID, ledger.ErrAmountOverflow, func() error {
		_, err := s.Deposit(ctx, c.ID, math.MaxInt64-1_010, nil)
		return err
	})
	if got, err := s.Deposit(ctx, c.ID, math.MaxInt64-1_011, nil); err != nil || got.Deposit != math.MaxInt64 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := s.Deposit(ctx, "unknown", 1, nil); !errors.Is(err, database.ErrNotFound) {
		t.Errorf("into an unknown channel: %v", err)
	}
}

func TestCloseReportsWhatIsLeft(t *testing.T) {
	ctx := t.Context()
	s := newShop(t)
	payer := newPayer(t, 1)
	c := s.open(payer.address(), 1)
	s.buy(paychan.BuyOptions{Payment: s.paid(payer, 1, 1, 10)})
	testenv.OK(t, s.Settle(ctx))
	s.buy(paychan.BuyOptions{Payment: s.paid(payer, 1, 2, 17)})
	closed, err := s.Close(ctx, c.ID)
	if err != nil || closed.Accepted != 17 || closed.Settled != 10 || closed.Credit != 2 || !closed.Closed.Equal(s.clock.Now()) {
		t.Fatalf("%+v, %v", closed, err)
	}
	s.clock.Advance(time.Second)
	again, err := s.Close(ctx, c.ID)
	if err != nil || !reflect.DeepEqual(again, closed) {
		t.Errorf("%+v, %v, want %+v", again, err, closed)
	}
	if _, err := s.Close(ctx, "unknown"); !errors.Is(err, database.ErrNotFound) {
		t.Errorf("an unknown channel: %v", err)
	}
	// Accepted amounts are still collected.
	testenv.OK(t, s.Settle(ctx))
	if got := s.channel(c.ID); got.Settled != 17 {
		t.Errorf("%d of 17 are settled after the close", got.Settled)
	}
	s.audit()
}
