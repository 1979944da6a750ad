package paychan_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/database/sqlstore"
	"sluice/internal/testclock"
	"sluice/ledger"
	"sluice/micropay"
	"sluice/paychan"
)

// newClock returns a clock that shows the time in micropay's test vectors.
func newClock() *testclock.Clock { return testclock.At(time.Unix(1_760_000_000, 0)) }

const (
	receiver   = "0xa1"
	asset      = "0xa2"
	module     = "0xa3"
	chainID    = 4
	sessionTTL = 10 * time.Minute
)

// options sells chunksets at 3 units.
func options() paychan.Options {
	return paychan.Options{
		SessionTTL: sessionTTL, Receiver: canonical(receiver), Asset: canonical(asset), Module: canonical(module), ChainID: chainID,
		Price: 3, Deposit: 1_000, UnsettledLimit: 1_000_000,
	}
}

func canonical(s string) string {
	a, err := micropay.ParseAddress(s)
	if err != nil {
		panic(err)
	}
	return a.String()
}

// tester is a *testing.T or a *rapid.T.
type tester interface {
	rapid.TB
	Context() context.Context
}

// shop is a Service over a real store. Its methods end the test on an unexpected error.
type shop struct {
	*paychan.Service
	t     tester
	path  string
	opt   paychan.Options
	meta  *sqlstore.Store
	clock *testclock.Clock // nil if now cannot be moved
	now   func() time.Time // for the store
}

// newShop opens a shop on a new database, which is closed when the test ends.
func newShop(t *testing.T, change ...func(*paychan.Options)) *shop {
	t.Helper()
	c := newClock()
	opt := options()
	for _, f := range change {
		f(&opt)
	}
	s := &shop{t: t, path: filepath.Join(t.TempDir(), "meta.db"), opt: opt, clock: c, now: c.Now}
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *shop) start() {
	s.t.Helper()
	var err error
	if s.meta, err = sqlstore.OpenSQLite(s.path, sqlstore.Options{Now: s.now}); err != nil {
		s.t.Fatal(err)
	}
	if s.Service, err = paychan.New(s.meta, s.opt); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shop) stop() {
	s.t.Helper()
	if err := s.meta.Close(); err != nil {
		s.t.Error(err)
	}
}

// another returns a second handle on the shop's database.
func (s *shop) another(t *testing.T) *shop {
	t.Helper()
	other := &shop{t: t, path: s.path, opt: s.opt, clock: s.clock, now: s.now}
	other.start()
	t.Cleanup(other.stop)
	return other
}

// on returns the same shop for a subtest.
func (s *shop) on(t tester) *shop {
	same := *s
	same.t = t
	return &same
}

func price(units int64) func(*paychan.Options) {
	return func(o *paychan.Options) { o.Price = units }
}

func deposit(units int64) func(*paychan.Options) {
	return func(o *paychan.Options) { o.Deposit = units }
}

func unsettledLimit(units int64) func(*paychan.Options) {
	return func(o *paychan.Options) { o.UnsettledLimit = units }
}

// open opens a channel with this number; sender may be empty.
func (s *shop) open(sender string, number int64) ledger.Channel {
	s.t.Helper()
	c, err := s.Open(s.t.Context(), paychan.OpenOptions{Sender: sender, PaymentChannelID: &number}, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *shop) channel(id string) ledger.Channel {
	s.t.Helper()
	c, err := s.Get(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// paid returns a new, verified payment that is valid for a minute.
func (s *shop) paid(p payer, channel, sequence, amount uint64) ledger.Payment {
	s.t.Helper()
	payment, err := s.Verify(s.t.Context(), p.sign(s.t, promise(s.now(), channel, sequence, amount)), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return payment
}

func (s *shop) buy(b paychan.BuyOptions) ledger.Session {
	s.t.Helper()
	bought, err := s.Buy(s.t.Context(), b, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return bought
}

func (s *shop) sessions(channel string) []ledger.Session {
	s.t.Helper()
	list, err := s.Sessions(s.t.Context(), channel)
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}

func (s *shop) pending() []ledger.Settlement {
	s.t.Helper()
	list, err := s.meta.Settlements(s.t.Context(), ledger.Settlement{}, 1_000)
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}

// audit fails the test unless the ledger adds up.
func (s *shop) audit() {
	s.t.Helper()
	found, err := s.meta.Audit(s.t.Context())
	if err != nil || len(found) > 0 {
		s.t.Errorf("audit: %q, %v", found, err)
	}
}

// unchanged calls do and fails the test unless it returns want and leaves the channel, its sessions
// and the pending settlements unchanged.
func (s *shop) unchanged(channel string, want error, do func() error) {
	s.t.Helper()
	type state struct {
		channel  ledger.Channel
		sessions []ledger.Session
		pending  []ledger.Settlement
	}
	look := func() state { return state{s.channel(channel), s.sessions(channel), s.pending()} }
	before := look()
	if err := do(); !sameRefusal(err, want) {
		s.t.Errorf("error %v, want %v", err, want)
	}
	if after := look(); !reflect.DeepEqual(after, before) {
		s.t.Errorf("a refusal changed\n%+v\nto\n%+v", before, after)
	}
	s.audit()
}

// sameRefusal reports whether got is the error want, including its values.
func sameRefusal(got, want error) bool {
	var wantStale, gotStale *ledger.StaleError
	var wantFunds, gotFunds *ledger.InsufficientFundsError
	switch {
	case errors.As(want, &wantStale):
		return errors.As(got, &gotStale) && errors.Is(got, ledger.ErrStalePayment) && bytes.Equal(gotStale.Stored, wantStale.Stored)
	case errors.As(want, &wantFunds):
		return errors.As(got, &gotFunds) && errors.Is(got, ledger.ErrInsufficientFunds) && *gotFunds == *wantFunds
	default:
		return errors.Is(got, want)
	}
}

// payer signs micropayments.
type payer struct{ signer *micropay.Signer }

func newPayer(t tester, secret byte) payer {
	t.Helper()
	key, err := micropay.NewPrivateKey(micropay.KeyEd25519, bytes.Repeat([]byte{secret}, 32))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := micropay.NewSigner(micropay.SchemeEd25519, key)
	if err != nil {
		t.Fatal(err)
	}
	return payer{signer}
}

func (p payer) address() string { return p.signer.Address().String() }

func (p payer) sign(t tester, m micropay.Payment) string {
	t.Helper()
	signed, err := p.signer.Sign(m)
	if err != nil {
		t.Fatal(err)
	}
	return signed.Base64()
}

// promise returns a payment that the shop accepts, valid for a minute.
func promise(at time.Time, channel, sequence, amount uint64) micropay.Payment {
	return micropay.Payment{
		Receiver:         micropay.Address{31: 0xa1},
		Asset:            micropay.Address{31: 0xa2},
		ModuleAddress:    micropay.Address{31: 0xa3},
		ChainID:          chainID,
		PaymentChannelID: channel,
		Sequence:         sequence,
		Amount:           amount,
		Expiration:       uint64(at.Unix()) + 60,
		Nonce:            1,
		AccountSequence:  micropay.NoAccountSequence,
		MaxGas:           200_000,
		GasPrice:         100,
	}
}
