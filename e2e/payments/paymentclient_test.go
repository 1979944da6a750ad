package payments

import (
	"bytes"
	"strconv"
	"testing"

	"sluice/e2e"
	"sluice/micropay"
	"sluice/test/testenv"
)

// clientTerms returns the receiver, asset and module for the client's scripts.
func clientTerms(s *e2e.Server) map[string]string {
	s.T.Helper()
	p, _ := s.Info()
	return map[string]string{"receiver": p.Receiver, "asset": p.Asset, "module": p.Module}
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

// TestPublicClientPays reads with the public client, from a local instance and without a key from a
// hosted network. The client pays with micropayments that it signs, and continues after its
// stale-state error.
func TestPublicClientPays(t *testing.T) {
	testenv.Require(t, testenv.NPM)
	t.Parallel()
	for scheme, more := range map[string][]string{"ed25519": nil, "secp256k1": {"--base-path", "/sluice"}} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			flags := append([]string{"--reads", "paid", "--chunkset-price", clientPrice}, more...)
			publicClientPays(e2e.Start(t, e2e.Options{Addr: "localhost:0", Flags: flags}), t, scheme)
			publicClientPays(e2e.StartHosted(t, "paid", "--chunkset-price", clientPrice).AsAdmin(), t, scheme)
		})
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
	testenv.OK(t, err)
	signer, err := micropay.NewSigner(form, key)
	testenv.OK(t, err)
	return signer.Address().String()
}

// publicClientPays opens a channel, and runs the public client with keys of this scheme over it.
func publicClientPays(s *e2e.Server, t *testing.T, scheme string) {
	const chunksets, deposit = 3, 1000
	data := e2e.Content(1, 2*e2e.ChunksetSize+12345)
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "dir/paid blob"), data)
	open := map[string]any{"deposit": strconv.Itoa(deposit)}
	if s.Key != "" { // otherwise the first payment binds the channel to the client's account
		open["userIdentity"] = clientAccount(t, scheme)
	}
	c := s.Opened(nil, s.Must(201, "POST", e2e.Channels, e2e.AsJSON(t, open)))
	lines := e2e.Script[paidLine](t, "paidread.mjs", string(e2e.AsJSON(t, map[string]any{
		"baseUrl": s.URL, "account": "0x1", "blobName": "dir/paid blob", "scheme": scheme, "secret": long("3c"),
		"price": e2e.Number(t, clientPrice), "chunksets": chunksets, "deposit": deposit, "paymentChannelId": c.Number, "terms": clientTerms(s),
	})))
	byCase := map[string]paidLine{}
	for _, line := range lines {
		byCase[line.Case] = line
	}
	for name, want := range map[string][]byte{
		"whole": data, "range": data[100:300], "range over two chunksets": data[e2e.ChunksetSize-3 : e2e.ChunksetSize+4], "resumed": data[5:6],
	} {
		if line := byCase[name]; line.Error != "" || line.SHA256 != e2e.Digest(want) || line.Size != len(want) || line.ContentLength != len(want) {
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
		if f := line.Fields; f.Amount != "42" || f.SequenceNumber != "3" || f.PaymentChannelID != strconv.FormatUint(c.Number, 10) {
			t.Errorf("%s, %s: the fields are %+v", scheme, name, f)
		}
	}
	if got := c.Settled().Money(); got != "deposit 1000 accepted 49 credit 0 sequence 4 open" {
		t.Errorf("%s: the channel is %q", scheme, got)
	}
}
