package micropay

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"sluice/test/testenv"
)

// Invariant 177.
func TestCheck(t *testing.T) {
	policy, all := vectors(t)
	m := testenv.Must(ParseBase64(all[0].Header))(t)
	for _, test := range []struct {
		name   string
		change func(*Policy)
		now    time.Time
		want   Reason
	}{
		{"valid", func(*Policy) {}, vectorTime, ""},
		{"last moment", func(*Policy) {}, vectorTime.Add(60*time.Second - 1), ""},
		{"expiry second", func(*Policy) {}, vectorTime.Add(60 * time.Second), ReasonExpired},
		{"clock before 1970", func(*Policy) {}, time.Unix(-1, 0), ReasonExpired},
		{"receiver", func(p *Policy) { p.Receiver[31]++ }, vectorTime, ReasonReceiver},
		{"module", func(p *Policy) { p.ModuleAddress[0]++ }, vectorTime, ReasonModuleAddress},
		{"chain", func(p *Policy) { p.ChainID++ }, vectorTime, ReasonChain},
		{"asset", func(p *Policy) { p.Asset[5]++ }, vectorTime, ReasonAsset},
		{"the fee is at the limit", func(p *Policy) { p.MaxFee = m.MaxGas * m.GasPrice }, vectorTime, ""},
		{"the fee is above the limit", func(p *Policy) { p.MaxFee = m.MaxGas*m.GasPrice - 1 }, vectorTime, ReasonGas},
		{"the gas price is the least", func(p *Policy) { p.MinGasPrice = m.GasPrice }, vectorTime, ""},
		{"the gas price is too low", func(p *Policy) { p.MinGasPrice = m.GasPrice + 1 }, vectorTime, ReasonGas},
		{"the gas price is the greatest", func(p *Policy) { p.MaxGasPrice = m.GasPrice }, vectorTime, ""},
		{"the gas price is too high", func(p *Policy) { p.MaxGasPrice = m.GasPrice - 1 }, vectorTime, ReasonGas},
		{"the maximum gas is the least", func(p *Policy) { p.MinGas = m.MaxGas }, vectorTime, ""},
		{"the maximum gas is too low", func(p *Policy) { p.MinGas = m.MaxGas + 1 }, vectorTime, ReasonGas},
	} {
		p := policy
		test.change(&p)
		err := m.Check(p, test.now)
		if reason(err) != test.want || (err == nil) != (test.want == "") {
			t.Errorf("%s: %v", test.name, err)
		}
		if err != nil && (!errors.Is(err, ErrRefused) || class(err) != ClassPolicy) {
			t.Errorf("%s: %v is not a refusal by policy", test.name, err)
		}
		if e, _ := errors.AsType[*Error](err); err != nil && test.want == ReasonGas && (e.MinGas != p.MinGas || e.MinGasPrice != p.MinGasPrice || e.MaxGasPrice != p.MaxGasPrice) {
			t.Errorf("%s: %+v lacks the policy's bounds", test.name, e)
		}
		_, received := receive(all[0].Header, p, test.now)
		if reason(received) != test.want {
			t.Errorf("%s: Receive: %v", test.name, received)
		}
	}
}

// A clock before 1970 must not look like one in the far future, or the reverse.
func TestCheckWithoutAUsableClock(t *testing.T) {
	m := &Micropayment{Payment: Payment{Expiration: math.MaxUint64}}
	if err := m.Check(Policy{}, time.Unix(-2, 0)); reason(err) != ReasonExpired {
		t.Errorf("before 1970: %v", err)
	}
	if err := m.Check(Policy{}, time.Unix(0, 0)); err != nil {
		t.Errorf("at the first second of 1970: %v", err)
	}
	if err := m.Check(Policy{}, time.Unix(math.MaxInt64, 0)); err != nil {
		t.Errorf("expiry beyond all times: %v", err)
	}
}

func TestReceiveVectors(t *testing.T) {
	policy, all := vectors(t)
	want := map[string]Reason{
		"other-asset":              ReasonAsset,
		"other-deployer":           ReasonModuleAddress,
		"hand-chain-2":             ReasonChain,
		"hand-expired":             ReasonExpired,
		"hand-wrong-function":      ReasonFunctionName,
		"hand-wrong-module-name":   ReasonModuleName,
		"hand-no-fee-payer":        ReasonFeePayer,
		"hand-no-secondary":        ReasonSecondary,
		"hand-multisig-address":    ReasonMultisig,
		"hand-type-arg":            ReasonTypeArgs,
		"hand-extra-arg":           ReasonArgs,
		"hand-missing-arg":         ReasonArgs,
		"hand-script-payload":      ReasonPayload,
		"no-account-authenticator": ReasonUnsupported,
		"wrong-signer-own-key":     ReasonSigner,
		"wrong-signer-claimed-key": ReasonBadSignature,
		"ed25519-malleable-s":      ReasonBadSignature,
		"non-canonical-uleb":       ReasonNotCanonical,
		"trailing-1":               ReasonTrailingBytes,
		"truncated-369":            ReasonTruncated,
		"bad-option-tag":           ReasonUnknownVariant,
		"not-base64":               ReasonNotBase64,
	}
	for _, v := range all {
		reasonWanted, listed := want[v.Name]
		if !listed {
			continue
		}
		delete(want, v.Name)
		_, err := receive(v.Header, policy, vectorTime)
		if reason(err) != reasonWanted {
			t.Errorf("%s: %v, want %s", v.Name, err, reasonWanted)
		}
		if err != nil && !strings.Contains(err.Error(), string(reasonWanted)) {
			t.Errorf("%s: %q does not name its reason", v.Name, err)
		}
	}
	if len(want) != 0 {
		t.Errorf("no such vectors: %v", want)
	}
}

func TestExpires(t *testing.T) {
	for seconds, want := range map[uint64]string{
		0:              "1970-01-01T00:00:00Z",
		1760000060:     "2025-10-09T08:54:20Z",
		253402300799:   "9999-12-31T23:59:59Z",
		253402300800:   "9999-12-31T23:59:59Z",
		math.MaxUint64: "9999-12-31T23:59:59Z",
	} {
		p := Payment{Expiration: seconds}
		if got := p.Expires().Format(time.RFC3339); got != want {
			t.Errorf("%d: %s, want %s", seconds, got, want)
		}
	}
}

func TestAddress(t *testing.T) {
	full := strings.Repeat("0", 63) + "1"
	for text, want := range map[string]string{
		"0x1":                           "0x1",
		"1":                             "0x1",
		"F":                             "0xf",
		"0x00F":                         "0xf",
		"0x10":                          "0x" + strings.Repeat("0", 62) + "10",
		full:                            "0x1",
		"0x" + full:                     "0x1",
		full[4:]:                        "0x1",
		"0xABcd":                        "0x" + strings.Repeat("0", 60) + "abcd",
		"0x1" + strings.Repeat("0", 63): "0x1" + strings.Repeat("0", 63),
	} {
		a, err := ParseAddress(text)
		if err != nil || a.String() != want {
			t.Errorf("%q: %v, %v, want %s", text, a, err, want)
		}
	}
	for _, text := range []string{"", "0x", "10", "zz", "0xg", "0X1", "0x1 ", "+1", "0x0x1", full[5:], "0" + full, "0x0" + full} {
		if a, err := ParseAddress(text); !errors.Is(err, ErrAddress) {
			t.Errorf("%q: %v, %v", text, a, err)
		}
	}
}

// TestFeesDoNotOverflow checks that no product of gas and price looks small.
// Invariant 177.
func TestFeesDoNotOverflow(t *testing.T) {
	for _, test := range []struct {
		gas, price, limit uint64
		above             bool
	}{
		{1 << 32, 1 << 32, math.MaxUint64, true},
		{1 << 32, 1<<32 + 1, 1 << 32, true},
		{math.MaxUint64, math.MaxUint64, math.MaxUint64, true},
		{math.MaxUint64, 1, math.MaxUint64, false},
		{math.MaxUint64, 0, 1, false},
		{3, 5, 15, false},
		{3, 5, 14, true},
	} {
		m := &Micropayment{Payment: Payment{MaxGas: test.gas, GasPrice: test.price, Expiration: 2}}
		if err := m.Check(Policy{MaxFee: test.limit}, time.Unix(1, 0)); (reason(err) == ReasonGas) != test.above {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// TestBoundsOfGasAcceptThePublicClient checks that bounds which the recorded payments meet refuse
// none of them, and that closer ones refuse all. The public client offers 200,000 units of gas, and
// the price that the fullnode estimates, 100; its users have offered 2,000 units.
// Invariant 177.
func TestBoundsOfGasAcceptThePublicClient(t *testing.T) {
	policy, all := vectors(t)
	bounded, closer := policy, policy
	bounded.MinGas, bounded.MinGasPrice, bounded.MaxGasPrice, bounded.MaxFee = 2000, 100, 100, 200_000*100
	closer.MaxGasPrice = 99
	for _, v := range all {
		m, want := judge(v.Header, policy)
		if _, err := judge(v.Header, bounded); reason(err) != reason(want) {
			t.Errorf("%s: %v, want %v", v.Name, err, want)
		}
		if _, err := judge(v.Header, closer); m != nil && reason(err) != ReasonGas {
			t.Errorf("%s: %v with a greatest price of 99", v.Name, err)
		}
	}
}
