package paychan_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"sluice/database/sqlstore"
	"sluice/ledger"
	"sluice/micropay"
	"sluice/paychan"
	"sluice/test/testclock"
	"sluice/test/testenv"
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

// shop is a Service over a real store. Its methods end the test on an unexpected error.
type shop struct {
	*paychan.Service
	t     testing.TB
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

// inBubble runs a test on a new shop in a bubble of synctest, and audits the shop in the end.
func inBubble(t *testing.T, opt func() paychan.Options, test func(*testing.T, *shop)) {
	path := filepath.Join(t.TempDir(), "meta.db")
	synctest.Test(t, func(t *testing.T) {
		s := &shop{t: t, path: path, opt: opt(), now: time.Now}
		s.start()
		defer s.stop()
		test(t, s)
		s.audit()
	})
}

func (s *shop) start() {
	s.t.Helper()
	s.meta = testenv.Must(sqlstore.OpenSQLite(s.path, sqlstore.Options{Now: s.now}))(s.t)
	s.Service = testenv.Must(paychan.New(s.meta, s.opt))(s.t)
}

func (s *shop) stop() {
	s.t.Helper()
	if err := s.meta.Close(); err != nil {
		s.t.Error(err)
	}
}

// open opens a channel with this number; sender may be empty.
func (s *shop) open(sender string, number int64) ledger.Channel {
	s.t.Helper()
	return testenv.Must(s.Open(s.t.Context(), paychan.OpenOptions{Sender: sender, PaymentChannelID: &number}, nil))(s.t)
}

func (s *shop) channel(id string) ledger.Channel {
	s.t.Helper()
	return testenv.Must(s.Get(s.t.Context(), id))(s.t)
}

// paid returns a new, verified payment that is valid for a minute.
func (s *shop) paid(p payer, channel, sequence, amount uint64) ledger.Payment {
	s.t.Helper()
	text := p.sign(s.t, promise(s.now(), channel, sequence, amount))
	return testenv.Must(s.Verify(s.t.Context(), text, nil))(s.t)
}

func (s *shop) buy(b paychan.BuyOptions) ledger.Session {
	s.t.Helper()
	return testenv.Must(s.Buy(s.t.Context(), b, nil))(s.t)
}

func (s *shop) sessions(channel string) []ledger.Session {
	s.t.Helper()
	return testenv.Must(s.Sessions(s.t.Context(), channel))(s.t)
}

func (s *shop) pending() []ledger.Settlement {
	s.t.Helper()
	return testenv.Must(s.meta.Settlements(s.t.Context(), ledger.Settlement{}, 1_000))(s.t)
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

func newPayer(t testing.TB, secret byte) payer {
	t.Helper()
	key := testenv.Must(micropay.NewPrivateKey(micropay.KeyEd25519, bytes.Repeat([]byte{secret}, 32)))(t)
	return payer{testenv.Must(micropay.NewSigner(micropay.SchemeEd25519, key))(t)}
}

func (p payer) address() string { return p.signer.Address().String() }

func (p payer) sign(t testing.TB, m micropay.Payment) string {
	t.Helper()
	return testenv.Must(p.signer.Sign(m))(t).Base64()
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
