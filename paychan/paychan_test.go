package paychan_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"sluice/database"
	"sluice/ledger"
	"sluice/micropay"
	"sluice/paychan"
	"sluice/test/fault"
	"sluice/test/testenv"
)

func TestOptions(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*paychan.Options)
		valid  bool
	}{
		"the least":        {func(o *paychan.Options) { o.Price, o.UnsettledLimit, o.SessionTTL = 1, 1, 1 }, true},
		"a price of 0":     {func(o *paychan.Options) { o.Price = 0 }, false},
		"a negative price": {func(o *paychan.Options) { o.Price = -1 }, false},
		"no receiver":      {func(o *paychan.Options) { o.Receiver = "" }, false},
		"a named asset":    {func(o *paychan.Options) { o.Asset = "coin" }, false},
		"no module":        {func(o *paychan.Options) { o.Module = "" }, false},

		"sessions without a lifetime": {func(o *paychan.Options) { o.SessionTTL = 0 }, false},
		"a limit that is too low":     {func(o *paychan.Options) { o.UnsettledLimit = 0 }, false},
	} {
		opt := options()
		test.change(&opt)
		if _, err := paychan.New(nil, opt); (err == nil) != test.valid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// lostResults is a store that opens channels and sells sessions, but loses the results.
type lostResults struct{ paychan.Store }

// OpenChannel opens a channel, and returns an unknown outcome.
func (s lostResults) OpenChannel(ctx context.Context, c ledger.Channel, idem *database.Idempotency) (ledger.Channel, error) {
	return ledger.Channel{}, fault.Lose.Do(database.ErrUnknownOutcome, func() error { return testenv.Error(s.Store.OpenChannel(ctx, c, idem)) })
}

// Buy sells a session, and returns an unknown outcome.
func (s lostResults) Buy(ctx context.Context, p ledger.Purchase, idem *database.Idempotency) (ledger.Session, error) {
	return ledger.Session{}, fault.Lose.Do(database.ErrUnknownOutcome, func() error { return testenv.Error(s.Store.Buy(ctx, p, idem)) })
}

// TestUnknownOutcomes checks that without an idempotency key the ID is returned by which a channel
// or a session can be looked up. With a key it may be one made before, so no ID is returned.
func TestUnknownOutcomes(t *testing.T) {
	s := newShop(t)
	service, err := paychan.New(lostResults{s.meta}, s.opt)
	testenv.OK(t, err)
	key := &database.Idempotency{Scope: "scope", Key: "k"}

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
	bought, err = service.Buy(t.Context(), paychan.BuyOptions{Payment: s.paid(payer, 1, 2, 6)}, &database.Idempotency{Scope: "buy", Key: "k"})
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

func TestOpen(t *testing.T) {
	s := newShop(t)
	now := s.clock.Now()
	c, err := s.Open(t.Context(), paychan.OpenOptions{}, nil)
	testenv.OK(t, err)
	want := ledger.Channel{
		ID: c.ID, PaymentChannelID: c.PaymentChannelID, Receiver: canonical(receiver), Asset: canonical(asset), Deposit: 1_000,
		Created: now, Expires: now.Add(paychan.DefaultTTL),
	}
	if !reflect.DeepEqual(c, want) || c.PaymentChannelID < 0 || c.PaymentChannelID >= 1<<53 {
		t.Errorf("by default: %+v, want %+v", c, want)
	}
	none, id := int64(0), int64(42)
	asked := paychan.OpenOptions{Sender: "0x1", Asset: "0x2", Deposit: &none, PaymentChannelID: &id, Expires: now.Add(time.Hour)}
	c, err = s.Open(t.Context(), asked, nil)
	testenv.OK(t, err)
	want = ledger.Channel{
		ID: c.ID, PaymentChannelID: 42, Sender: "0x1", Receiver: canonical(receiver), Asset: "0x2", Created: now, Expires: asked.Expires,
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("%+v, want %+v", c, want)
	}
	testenv.Is(t, testenv.Error(s.Open(t.Context(), asked, nil)), database.ErrExists, "a second channel of the same parties")
	asked.Expires = now
	testenv.Is(t, testenv.Error(s.Open(t.Context(), asked, nil)), paychan.ErrExpiryPast, "a channel that has expired")
}
