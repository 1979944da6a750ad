package micropay

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/test/testenv"
)

// vectorTime is the time at which the vectors were created.
var vectorTime = time.Unix(1760000000, 0)

// vector is an entry of testdata/micropayments.json, created by the public client or by hand from
// its parts.
type vector struct {
	Name    string
	Header  string `json:"header_base64"`
	Valid   bool
	Class   string `json:"reject_class"`
	Message string `json:"signing_message_hex"`
	Decoded struct {
		Sender           string
		AccountSequence  string   `json:"sequence_number"`
		PayloadKind      string   `json:"payload_kind"`
		ModuleAddress    string   `json:"module_address"`
		ModuleName       string   `json:"module_name"`
		FunctionName     string   `json:"function_name"`
		MaxGas           string   `json:"max_gas_amount"`
		GasPrice         string   `json:"gas_unit_price"`
		Expiration       string   `json:"expiration_timestamp_secs"`
		ChainID          uint8    `json:"chain_id"`
		Secondary        []string `json:"secondary_signers"`
		Authenticator    int      `json:"authenticator_variant"`
		Amount           *string
		PaymentChannelID string  `json:"payment_channel_id"`
		Sequence         string  `json:"micropayment_sequence_number"`
		Asset            string  `json:"fungible_asset_address"`
		PublicKey        string  `json:"public_key_bcs_hex"`
		AuthKey          string  `json:"derived_auth_key"`
		ReplayNonce      *string `json:"replay_protection_nonce"`
	}
}

func vectors(t testing.TB) (Policy, []vector) {
	t.Helper()
	var file struct {
		Expected struct {
			ModuleAddress string `json:"micropayments_deployer"`
			Asset         string `json:"fungible_asset"`
			Receiver      string
			ChainID       uint8 `json:"chain_id"`
		} `json:"expected_policy"`
		Vectors []vector
	}
	testenv.OK(t, json.Unmarshal(testenv.Must(os.ReadFile("testdata/micropayments.json"))(t), &file))
	if len(file.Vectors) != 44 {
		t.Fatalf("%d vectors, want 44", len(file.Vectors))
	}
	return Policy{
		Receiver:      address(t, file.Expected.Receiver),
		Asset:         address(t, file.Expected.Asset),
		ModuleAddress: address(t, file.Expected.ModuleAddress),
		ChainID:       file.Expected.ChainID,
	}, file.Vectors
}

func address(t testing.TB, s string) Address {
	t.Helper()
	return testenv.Must(ParseAddress(s))(t)
}

func number(t testing.TB, s string) uint64 {
	t.Helper()
	return testenv.Must(strconv.ParseUint(s, 10, 64))(t)
}

// payment returns a vector's fields as the independent decoder has decoded them.
func (v *vector) payment(t testing.TB) Payment {
	d := &v.Decoded
	p := Payment{
		Sender:          address(t, d.Sender),
		AccountSequence: number(t, d.AccountSequence),
		MaxGas:          number(t, d.MaxGas),
		GasPrice:        number(t, d.GasPrice),
		Expiration:      number(t, d.Expiration),
		ChainID:         d.ChainID,
	}
	if len(d.Secondary) > 0 {
		p.Receiver = address(t, d.Secondary[0])
	}
	p.ModuleAddress = address(t, d.ModuleAddress)
	if d.Amount != nil {
		p.Amount = number(t, *d.Amount)
		p.PaymentChannelID = number(t, d.PaymentChannelID)
		p.Sequence = number(t, d.Sequence)
		p.Asset = address(t, d.Asset)
	}
	switch {
	case strings.HasPrefix(d.PayloadKind, "EntryFunction(2)"):
		p.Form = FormPlain
	case d.ReplayNonce != nil:
		p.Nonce = number(t, *d.ReplayNonce)
	default:
		t.Fatalf("%s: payload kind %q without a nonce", v.Name, d.PayloadKind)
	}
	return p
}

// judge is Receive for vectors that are valid under another policy than the file's: it accepts
// their receiver, asset and module.
func judge(header string, p Policy) (*Micropayment, error) {
	m, err := ParseBase64(header)
	if err != nil {
		return nil, err
	}
	p.Receiver, p.Asset, p.ModuleAddress = m.Receiver, m.Asset, m.ModuleAddress
	return receive(header, p, vectorTime)
}

func class(err error) Class {
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return "ok"
}

func reason(err error) Reason {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

func TestVectorClasses(t *testing.T) {
	policy, all := vectors(t)
	for _, v := range all {
		t.Run(v.Name, func(t *testing.T) {
			m, err := judge(v.Header, policy)
			if string(class(err)) != v.Class || (err == nil) != v.Valid {
				t.Fatalf("got %v, want class %s", err, v.Class)
			}
			if malformed := v.Class == "encoding" || v.Class == "parse" || v.Class == "shape"; err != nil &&
				(errors.Is(err, ErrMalformed) != malformed || errors.Is(err, ErrRefused) == malformed) {
				t.Errorf("%v is of the wrong kind", err)
			}
			if err == nil && m.Base64() != v.Header {
				t.Error("Base64 differs from the parsed text")
			}
		})
	}
}

// The fields and signing messages of refused vectors are compared too, as far as the bytes have a
// meaning: not after a script or type arguments, where parsing stops.
func TestVectorFields(t *testing.T) {
	_, all := vectors(t)
	compared, messages := 0, 0
	for _, v := range all {
		if v.Decoded.Sender == "" || v.Name == "hand-script-payload" || v.Name == "hand-type-arg" {
			continue
		}
		compared++
		t.Run(v.Name, func(t *testing.T) {
			m, _ := decode(fromBase64(t, v.Header)) // TestVectorClasses checks the error
			want := v.payment(t)
			if v.Decoded.Amount == nil { // its arguments are no payment's
				m.Amount, m.PaymentChannelID, m.Sequence, m.Asset = 0, 0, 0, Address{}
			}
			if m.Payment != want {
				t.Errorf("got  %+v\nwant %+v", m.Payment, want)
			}
			if int(m.auth.scheme) != v.Decoded.Authenticator {
				t.Errorf("authenticator %v, want %d", m.auth.scheme, v.Decoded.Authenticator)
			}
			if v.Valid && (v.Decoded.ModuleName != ModuleName || v.Decoded.FunctionName != FunctionName) {
				t.Errorf("accepted a call of %s::%s", v.Decoded.ModuleName, v.Decoded.FunctionName)
			}
			switch {
			case v.Message == "",
				v.Name == "hand-no-fee-payer",  // signed in a form that is never accepted
				v.Name == "non-canonical-uleb": // the vector has the canonical bytes' message
			default:
				messages++
				testenv.Equal(t, hex.EncodeToString(m.SigningMessage()), v.Message, "signing message")
			}
			if v.Decoded.PublicKey == "" {
				return
			}
			keys := m.auth.publicKeys()
			if m.auth.scheme == SchemeEd25519 || m.auth.scheme == SchemeMultiEd25519 {
				keys = appendBytes(nil, string(keys))
			}
			testenv.Equal(t, hex.EncodeToString(keys), v.Decoded.PublicKey, "public key")
			testenv.Equal(t, m.auth.address(), address(t, v.Decoded.AuthKey), "address")
		})
	}
	testenv.Equal(t, compared, 32, "vectors compared")
	testenv.Equal(t, messages, 30, "signing messages compared")
}

// testKey is one of the vectors' keys: one byte, 32 times.
func testKey(t testing.TB, kind KeyType, b byte) PrivateKey {
	t.Helper()
	return testenv.Must(NewPrivateKey(kind, bytes.Repeat([]byte{b}, 32)))(t)
}

func publics(keys ...PrivateKey) (p []PublicKey) {
	for _, k := range keys {
		p = append(p, k.Public())
	}
	return p
}

// signers returns a signer of every scheme, with the vectors' keys, by address.
func signers(t testing.TB) []*Signer {
	m1, m2, m3 := testKey(t, KeyEd25519, 0x51), testKey(t, KeySecp256k1, 0x52), testKey(t, KeyEd25519, 0x53)
	e1, e2, e3 := testKey(t, KeyEd25519, 0x61), testKey(t, KeyEd25519, 0x62), testKey(t, KeyEd25519, 0x63)
	return []*Signer{
		testenv.Must(NewSigner(SchemeEd25519, testKey(t, KeyEd25519, 0x11)))(t),
		testenv.Must(NewSigner(SchemeSingleKey, testKey(t, KeyEd25519, 0x22)))(t),
		testenv.Must(NewSigner(SchemeSingleKey, testKey(t, KeySecp256k1, 0x33)))(t),
		testenv.Must(NewMultiSigner(SchemeMultiKey, publics(m1, m2, m3), 2, m2, m3))(t),
		testenv.Must(NewMultiSigner(SchemeMultiKey, publics(m1, m2, m3), 2, m1, m2))(t),
		testenv.Must(NewMultiSigner(SchemeMultiEd25519, publics(e1, e2, e3), 2, e1, e3))(t),
	}
}

// Sign returns the same bytes as the public client for the same fields and keys.
func TestSignIsByteIdentical(t *testing.T) {
	_, all := vectors(t)
	built := map[Scheme]int{}
	for _, v := range all {
		if v.Class != "ok" && v.Class != "policy" {
			continue
		}
		p := v.payment(t)
		found := ""
		for _, s := range signers(t) {
			if s.Address() != p.Sender {
				continue
			}
			m := testenv.Must(s.Sign(p))(t)
			if m.Base64() == v.Header && m.Payment == p {
				found = v.Header
				built[m.Scheme()]++
				break
			}
		}
		if found == "" {
			t.Errorf("%s: no signer returns its bytes", v.Name)
		}
	}
	if fmt.Sprint(built) != "map[Ed25519:11 SingleKey:2 MultiKey:1]" {
		t.Errorf("built %v", built)
	}
}

func fromBase64(t testing.TB, s string) []byte {
	t.Helper()
	var b []byte
	testenv.OK(t, json.Unmarshal([]byte(`"`+s+`"`), &b))
	return b
}
