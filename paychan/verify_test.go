package paychan_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"sluice/internal/testenv"
	"sluice/ledger"
	"sluice/micropay"
	"sluice/paychan"
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
		!got.Expires.Equal(s.clock.Now().Add(time.Minute)) || got.UnsettledLimit != s.opt.UnsettledLimit {
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
	if _, err := s.Verify(t.Context(), text, nil); !errors.Is(err, micropay.ErrRefused) {
		t.Errorf("at its expiry: %v", err)
	}
}

// vectors were created with the public client, valid and invalid ones.
type vectors struct {
	Expected struct {
		Module   string `json:"micropayments_deployer"`
		Asset    string `json:"fungible_asset"`
		Receiver string
		ChainID  uint8 `json:"chain_id"`
	} `json:"expected_policy"`
	Vectors []vector
}

type vector struct {
	Name    string
	Header  string         `json:"header_base64"`
	Class   micropay.Class `json:"reject_class"`
	Decoded struct {
		Sender    string
		Module    string   `json:"module_address"`
		Secondary []string `json:"secondary_signers"`
		Amount    string
		Channel   string `json:"payment_channel_id"`
		Sequence  string `json:"micropayment_sequence_number"`
		Asset     string `json:"fungible_asset_address"`
	}
}

func TestVerifyVectors(t *testing.T) {
	b, err := os.ReadFile("../micropay/testdata/micropayments.json")
	testenv.OK(t, err)
	var file vectors
	testenv.OK(t, json.Unmarshal(b, &file))
	policy := file.Expected
	s := newShop(t, func(o *paychan.Options) {
		o.Module, o.Asset, o.Receiver, o.ChainID = policy.Module, policy.Asset, policy.Receiver, policy.ChainID
	})
	taken := 0
	for _, v := range file.Vectors {
		t.Run(v.Name, func(t *testing.T) {
			want, kind := v.payment(t, &file)
			got, err := s.Verify(t.Context(), v.Header, nil)
			if !errors.Is(err, kind) {
				t.Fatalf("error %v, want %v", err, kind)
			}
			if err != nil {
				return
			}
			taken++
			if got.Sender != want.Sender || got.Amount != want.Amount || got.Sequence != want.Sequence || got.PaymentChannelID != want.PaymentChannelID {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
	if taken != 9 {
		t.Errorf("%d of the vectors were accepted, want 9", taken)
	}
}

// payment returns the expected result of Verify for a vector, or the kind of its refusal.
func (v *vector) payment(t *testing.T, file *vectors) (p ledger.Payment, kind error) {
	t.Helper()
	d, policy := v.Decoded, file.Expected
	switch v.Class {
	case micropay.ClassEncoding, micropay.ClassParse, micropay.ClassShape:
		return p, micropay.ErrMalformed
	case micropay.ClassPolicy, micropay.ClassSigner, micropay.ClassSignature:
		return p, micropay.ErrRefused
	}
	if canonical(d.Module) != policy.Module || canonical(d.Asset) != policy.Asset || canonical(d.Secondary[0]) != policy.Receiver {
		return p, micropay.ErrRefused
	}
	p.Sender = canonical(d.Sender)
	for into, text := range map[*int64]string{&p.Amount: d.Amount, &p.PaymentChannelID: d.Channel, &p.Sequence: d.Sequence} {
		n, err := strconv.ParseUint(text, 10, 64)
		testenv.OK(t, err)
		if n >= 1<<63 {
			return p, ledger.ErrAmountOverflow
		}
		*into = int64(n)
	}
	return p, nil
}
