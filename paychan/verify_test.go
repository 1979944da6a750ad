package paychan_test

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"os"
	"reflect"
	"testing"
	"time"

	"sluice/ledger"
	"sluice/micropay"
	"sluice/paychan"
	"sluice/test/testenv"
)

func TestVerifyReturnsWhatWasSigned(t *testing.T) {
	s := newShop(t)
	payer := newPayer(t, 1)
	text := payer.sign(t, promise(s.clock.Now(), 7, 3, 250))
	got, err := s.Verify(t.Context(), text, nil)
	testenv.OK(t, err)
	if base64.StdEncoding.EncodeToString(got.Proof) != text {
		t.Errorf("proof %x is not the one sent", got.Proof)
	}
	if got.Sender != payer.address() || got.Receiver != canonical(receiver) || got.Asset != canonical(asset) ||
		got.PaymentChannelID != 7 || got.Sequence != 3 || got.Amount != 250 ||
		!got.Expires.Equal(s.clock.Now().Add(time.Minute)) {
		t.Errorf("%+v", got)
	}
}

// tampered flips a bit of a micropayment, counted from its end.
func tampered(t *testing.T, text string, fromEnd int) string {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(text)
	testenv.OK(t, err)
	b[len(b)-fromEnd] ^= 1
	return base64.StdEncoding.EncodeToString(b)
}

func TestVerifyRefuses(t *testing.T) {
	s := newShop(t)
	payer := newPayer(t, 1)
	signed := func(change func(*micropay.Payment)) string {
		m := promise(s.clock.Now(), 7, 3, 250)
		change(&m)
		return payer.sign(t, m)
	}
	good := signed(func(*micropay.Payment) {})
	huge := func(m *micropay.Payment) { m.Amount = 1 << 63 }
	const size = 370 // bytes in a valid one; see package micropay for the layout
	for name, c := range map[string]struct {
		text   string
		kind   error
		class  micropay.Class
		reason micropay.Reason
	}{
		"empty":             {"", micropay.ErrMalformed, micropay.ClassEncoding, micropay.ReasonNotBase64},
		"not base64":        {"*", micropay.ErrMalformed, micropay.ClassEncoding, micropay.ReasonNotBase64},
		"cut":               {good[:400], micropay.ErrMalformed, micropay.ClassParse, micropay.ReasonTruncated},
		"another function":  {tampered(t, good, size-95), micropay.ErrMalformed, micropay.ClassShape, micropay.ReasonFunctionName},
		"another receiver":  {signed(func(m *micropay.Payment) { m.Receiver[0]++ }), micropay.ErrRefused, micropay.ClassPolicy, micropay.ReasonReceiver},
		"another module":    {signed(func(m *micropay.Payment) { m.ModuleAddress[0]++ }), micropay.ErrRefused, micropay.ClassPolicy, micropay.ReasonModuleAddress},
		"another chain":     {signed(func(m *micropay.Payment) { m.ChainID++ }), micropay.ErrRefused, micropay.ClassPolicy, micropay.ReasonChain},
		"another asset":     {signed(func(m *micropay.Payment) { m.Asset[0]++ }), micropay.ErrRefused, micropay.ClassPolicy, micropay.ReasonAsset},
		"expired":           {signed(func(m *micropay.Payment) { m.Expiration -= 60 }), micropay.ErrRefused, micropay.ClassPolicy, micropay.ReasonExpired},
		"another sender":    {tampered(t, good, size), micropay.ErrRefused, micropay.ClassSigner, micropay.ReasonSigner},
		"forged":            {tampered(t, good, size-110), micropay.ErrRefused, micropay.ClassSignature, micropay.ReasonBadSignature},
		"flipped signature": {tampered(t, good, 64), micropay.ErrRefused, micropay.ClassSignature, micropay.ReasonBadSignature},
		// A forgery's amounts do not matter.
		"forged and too large": {tampered(t, signed(huge), 64), micropay.ErrRefused, micropay.ClassSignature, micropay.ReasonBadSignature},
		"expired and too large": {signed(func(m *micropay.Payment) { huge(m); m.Expiration = 1 }),
			micropay.ErrRefused, micropay.ClassPolicy, micropay.ReasonExpired},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := s.Verify(t.Context(), c.text, nil)
			var refusal *micropay.Error
			if !errors.Is(err, c.kind) || errors.Is(err, ledger.ErrAmountOverflow) || !errors.As(err, &refusal) {
				t.Fatalf("%+v, %v, want %v", got, err, c.kind)
			}
			if refusal.Class != c.class || refusal.Reason != c.reason {
				t.Errorf("%v, want class %s and reason %s", err, c.class, c.reason)
			}
		})
	}
}

func TestVerifyAcceptsNumbersBelow2To63(t *testing.T) {
	s := newShop(t)
	payer := newPayer(t, 1)
	const largest = 1<<63 - 1
	for name, c := range map[string]struct {
		channel, sequence, amount uint64
		want                      error
	}{
		"all largest":     {largest, largest, largest, nil},
		"amount":          {1, 1, largest + 1, ledger.ErrAmountOverflow},
		"channel":         {largest + 1, 1, 1, ledger.ErrAmountOverflow},
		"sequence":        {1, largest + 1, 1, ledger.ErrAmountOverflow},
		"amount of 2^64":  {1, 1, 1<<64 - 1, ledger.ErrAmountOverflow},
		"all are maximal": {1<<64 - 1, 1<<64 - 1, 1<<64 - 1, ledger.ErrAmountOverflow},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := s.Verify(t.Context(), payer.sign(t, promise(s.clock.Now(), c.channel, c.sequence, c.amount)), nil)
			if !errors.Is(err, c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if err != nil && (errors.Is(err, micropay.ErrMalformed) || errors.Is(err, micropay.ErrRefused)) {
				t.Errorf("%v also matches a refusal of the signature", err)
			}
			if err == nil && (got.Amount != largest || got.Sequence != largest || got.PaymentChannelID != largest) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestVerifyUsesItsClock(t *testing.T) {
	s := newShop(t)
	text := newPayer(t, 1).sign(t, promise(s.clock.Now(), 1, 1, 1))
	s.clock.Advance(time.Minute - time.Nanosecond)
	if _, err := s.Verify(t.Context(), text, nil); err != nil {
		t.Errorf("just before its expiry: %v", err)
	}
	s.clock.Advance(time.Nanosecond)
	testenv.Is(t, testenv.Error(s.Verify(t.Context(), text, nil)), micropay.ErrRefused, "at its expiry")
}

// TestVerifyIsReceive compares Verify with micropay.Receive on micropayments of the public client
// and on invalid ones. The tests of package micropay compare Receive with an independent decoder.
func TestVerifyIsReceive(t *testing.T) {
	var file struct {
		Policy struct {
			Module   string `json:"micropayments_deployer"`
			Asset    string `json:"fungible_asset"`
			Receiver string
			ChainID  uint8 `json:"chain_id"`
		} `json:"expected_policy"`
		Vectors []struct {
			Name   string
			Header string `json:"header_base64"`
		}
	}
	testenv.OK(t, json.Unmarshal(testenv.Must(os.ReadFile("../micropay/testdata/micropayments.json"))(t), &file))
	s := newShop(t, func(o *paychan.Options) {
		o.Module, o.Asset, o.Receiver, o.ChainID = file.Policy.Module, file.Policy.Asset, file.Policy.Receiver, file.Policy.ChainID
	})
	policy := micropay.Policy{ChainID: file.Policy.ChainID}
	for text, into := range map[string]*micropay.Address{
		file.Policy.Module: &policy.ModuleAddress, file.Policy.Asset: &policy.Asset, file.Policy.Receiver: &policy.Receiver,
	} {
		*into = testenv.Must(micropay.ParseAddress(text))(t)
	}
	accepted := 0
	for _, v := range file.Vectors {
		got, err := s.Verify(t.Context(), v.Header, nil)
		m, want := micropay.ParseBase64(v.Header)
		if want == nil {
			want = cmp.Or(m.Check(policy, s.clock.Now()), m.Verify())
		}
		switch {
		case want != nil:
			if !reflect.DeepEqual(err, want) {
				t.Errorf("%s: error %v, want %v", v.Name, err, want)
			}
		case max(m.Amount, m.PaymentChannelID, m.Sequence) > math.MaxInt64:
			testenv.Is(t, err, ledger.ErrAmountOverflow, "%s", v.Name)
		default:
			accepted++
			testenv.Is(t, err, nil, "%s", v.Name)
			if got.Sender != m.Sender.String() || got.Amount != int64(m.Amount) || got.Sequence != int64(m.Sequence) ||
				got.PaymentChannelID != int64(m.PaymentChannelID) {
				t.Errorf("%s: %+v, want %+v", v.Name, got, m.Payment)
			}
		}
	}
	testenv.Equal(t, accepted, 9, "accepted vectors")
}
