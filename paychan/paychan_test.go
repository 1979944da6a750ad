package paychan_test

import (
	"reflect"
	"testing"
	"time"

	"sluice/database"
	"sluice/ledger"
	"sluice/micropay"
	"sluice/paychan"
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
