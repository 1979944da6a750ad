package e2e

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"

	"sluice/internal/testenv"
	"sluice/micropay"
)

// clientTerms returns the receiver, asset and module for the client's scripts.
func (s *server) clientTerms() map[string]string {
	s.t.Helper()
	p, _ := s.info()
	return map[string]string{"receiver": p.Receiver, "asset": p.Asset, "module": p.Module}
}

// TestClientMicropayments buys with micropayments signed by the public packages, with both kinds of
// keys. Their bytes must equal those that package micropay signs for the same payment.
func TestClientMicropayments(t *testing.T) {
	testenv.Require(t, testenv.NPM)
	t.Parallel()
	s := start(t, options{})
	type payment struct {
		PaymentChannelID uint64 `json:"paymentChannelId"`
		SequenceNumber   uint64 `json:"sequenceNumber"`
		Amount           uint64 `json:"amount"`
	}
	type signed struct{ Sender, Micropayment string }
	secret := bytes.Repeat([]byte{0x5a}, 32)
	for scheme, of := range map[string]struct {
		key    micropay.KeyType
		scheme micropay.Scheme
	}{"ed25519": {micropay.KeyEd25519, micropay.SchemeEd25519}, "secp256k1": {micropay.KeySecp256k1, micropay.SchemeSingleKey}} {
		key, err := micropay.NewPrivateKey(of.key, secret)
		if err != nil {
			t.Fatal(err)
		}
		signer, err := micropay.NewSigner(of.scheme, key)
		if err != nil {
			t.Fatal(err)
		}
		c := s.open(&payer{signer, s.terms()}, 1000)
		lines := script[signed](t, "sign.mjs", string(asJSON(t, map[string]any{
			"scheme": scheme, "secret": fmt.Sprintf("%#x", secret), "terms": s.clientTerms(),
			"payments": []payment{{c.number, 1, 40}, {c.number, 2, 45}},
		})))
		if len(lines) != 2 {
			t.Fatalf("%s: %d micropayments", scheme, len(lines))
		}
		for i, line := range lines {
			theirs, err := micropay.ParseBase64(line.Micropayment)
			if err != nil {
				t.Fatalf("%s: %v", scheme, err)
			}
			ours, err := signer.Sign(theirs.Payment)
			if err != nil || !bytes.Equal(ours.Bytes(), theirs.Bytes()) || theirs.Sender != address(t, line.Sender) {
				t.Errorf("%s: the client signs %x, micropay %x (%v)", scheme, theirs.Bytes(), ours.Bytes(), err)
			}
			bought := asSession(t, s.must(201, "POST", "/v1/sessions", purchaseBody(t, line.Micropayment, "")))
			if want := []int64{40, 5}[i]; bought.ChunksetsTotal != want {
				t.Errorf("%s: payment %d bought %+v, want %d chunksets", scheme, i, bought, want)
			}
		}
		if got := c.settled().money(); got != "deposit 1000 accepted 45 credit 0 sequence 2 open" {
			t.Errorf("%s: the channel is %q", scheme, got)
		}
	}
}

// paidLine is one line that the client's script prints: the outcome of one paid read.
type paidLine struct {
	Case          string
	Sent          string
	Size          int
	ContentLength int
	SHA256        string
	Error         string
	Name          string
	Stored        string
	Fields        struct{ Amount, PaymentChannelID, SequenceNumber string }
}

// TestPublicClientPays reads with the public client. The client pays with micropayments that it
// signs, and continues after its stale-state error.
func TestPublicClientPays(t *testing.T) {
	testenv.Require(t, testenv.NPM)
	t.Parallel()
	for _, test := range []struct{ scheme, base string }{{"ed25519", ""}, {"secp256k1", "/sluice"}} {
		o := options{addr: "localhost:0", flags: []string{"--reads", "paid", "--chunkset-price", clientPrice}}
		if test.base != "" {
			o.flags = append(o.flags, "--base-path", test.base)
		}
		start(t, o).publicClientPays(t, test.scheme)
	}
}

// clientPrice is a chunkset's price in the public client's tests.
const clientPrice = "7"

// clientAccount returns the account for which the public client signs in its tests.
func clientAccount(t *testing.T, scheme string) string {
	t.Helper()
	kind, form := micropay.KeyEd25519, micropay.SchemeEd25519
	if scheme == "secp256k1" {
		kind, form = micropay.KeySecp256k1, micropay.SchemeSingleKey
	}
	key, err := micropay.NewPrivateKey(kind, bytes.Repeat([]byte{0x3c}, 32))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := micropay.NewSigner(form, key)
	if err != nil {
		t.Fatal(err)
	}
	return signer.Address().String()
}

// publicClientPays opens a channel, and runs the public client with keys of this scheme over it.
func (s *server) publicClientPays(t *testing.T, scheme string) {
	const chunksets, deposit = 3, 1000
	data := content(1, 2*chunksetSize+12345)
	s.must(204, "PUT", blobTarget("0x1", "dir/paid blob"), data)
	open := map[string]any{"deposit": strconv.Itoa(deposit)}
	if s.key != "" { // otherwise the first payment binds the channel to the client's account
		open["userIdentity"] = clientAccount(t, scheme)
	}
	c := s.opened(nil, s.must(201, "POST", channels, asJSON(t, open)))
	lines := script[paidLine](t, "paidread.mjs", string(asJSON(t, map[string]any{
		"baseUrl": s.url, "account": "0x1", "blobName": "dir/paid blob", "scheme": scheme, "secret": long("3c"),
		"price": number(t, clientPrice), "chunksets": chunksets, "deposit": deposit, "paymentChannelId": c.number, "terms": s.clientTerms(),
	})))
	byCase := map[string]paidLine{}
	for _, line := range lines {
		byCase[line.Case] = line
	}
	for name, want := range map[string][]byte{
		"whole": data, "range": data[100:300], "range over two chunksets": data[chunksetSize-3 : chunksetSize+4], "resumed": data[5:6],
	} {
		if line := byCase[name]; line.Error != "" || line.SHA256 != digest(want) || line.Size != len(want) || line.ContentLength != len(want) {
			t.Errorf("%s, %s: %+v", scheme, name, line)
		}
	}
	for _, name := range []string{"no payment", "too little", "above the deposit"} {
		if line := byCase[name]; line.Error != "Failed to download blob: 402 Payment Required" {
			t.Errorf("%s, %s: %+v", scheme, name, line)
		}
	}
	accepted := byCase["range over two chunksets"].Sent
	for _, name := range []string{"stale", "stale amount"} {
		line := byCase[name]
		if line.Name != "StaleChannelStateError" || line.Stored != accepted || line.Error == "" {
			t.Errorf("%s, %s: %+v, want the stored %s", scheme, name, line, accepted)
		}
		if f := line.Fields; f.Amount != "42" || f.SequenceNumber != "3" || f.PaymentChannelID != strconv.FormatUint(c.number, 10) {
			t.Errorf("%s, %s: the fields are %+v", scheme, name, f)
		}
	}
	if got := c.settled().money(); got != "deposit 1000 accepted 49 credit 0 sequence 4 open" {
		t.Errorf("%s: the channel is %q", scheme, got)
	}
}
