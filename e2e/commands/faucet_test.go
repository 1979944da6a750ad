package commands

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"sluice/e2e"
)

// TestFaucet opens a channel with a chosen number, adds a number and not a text to it, and checks
// that a foreign page cannot, and that other servers have no faucet.
// Invariant 78.
func TestFaucet(t *testing.T) {
	t.Parallel()
	const target = "/v1/local/faucet"
	s := e2e.Start(t, e2e.Options{Flags: []string{"--reads", "paid"}})
	var c e2e.ChannelState
	s.Must(201, "POST", target, []byte(`{"sender": "0xA", "amount": "10", "paymentChannelId": "77"}`))
	body := []byte(`{"sender": "0xa", "amount": 5, "paymentChannelId": "77"}`)
	if s.Must(200, "POST", target, body).Decode(t, &c); c.PaymentChannelID != "77" || c.Deposit != "15" || c.State != "open" || len(c.Sessions) != 0 {
		t.Errorf("%+v", c)
	}
	s.WantCode(400, "number_too_large", "POST", target, []byte(`{"sender": "0xa", "amount": "9223372036854775808"}`))
	s.Must(403, "POST", target, body, "Origin", "https://evil.example")
	e2e.StartHosted(t, "paid").AsAdmin().WantCode(404, "route_not_found", "POST", target, body)
}

// TestPayFromTheFaucet walks through a payment on the command line, twice, and reads with the
// bought chunksets.
func TestPayFromTheFaucet(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--reads", "paid"}})
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "paid"), []byte("hello"))
	dir := t.TempDir()
	account := filepath.Join(dir, "account.key")
	address := e2e.Prints(t, "account", "new", account)
	pay := func(chunksets string) e2e.Result {
		return e2e.SluiceRuns(t, "pay", "--account-file", account, "--state-file", filepath.Join(dir, "payer.json"), "--url", s.URL,
			"--faucet", "1000", "--max-price", "1", "--max-spend", "100", "--chunksets", chunksets)
	}
	var id string
	for i, test := range []struct{ chunksets, deposit, step3 string }{
		{"10", "1000", "3. The account has signed a micropayment of 10 units in all, 10 units more than before."},
		{"15", "2000", "3. The account has signed a micropayment of 15 units in all, 5 units more than before."},
		{"15", "3000", "3. The session had enough chunksets, so nothing was signed."},
	} {
		r := pay(test.chunksets)
		if r.Code != 0 || i > 0 && r.Stdout != id {
			t.Fatalf("%+v", r)
		}
		id = r.Stdout
		session := strings.TrimSpace(id)
		for _, want := range []string{"1. Account " + address + " pays.", "whose deposit is now " + test.deposit + " units.", test.step3,
			fmt.Sprintf("curl -H 'Session-Id: %s' %s/v1/blobs/ACCOUNT/NAME", session, s.URL)} {
			if !strings.Contains(r.Stderr, want) {
				t.Errorf("%q does not contain %q", r.Stderr, want)
			}
		}
		s.Must(200, "HEAD", e2e.BlobTarget("0x1", "paid"), nil)
	}
	if r := s.Must(200, "GET", e2e.BlobTarget("0x1", "paid"), nil, "Session-Id", strings.TrimSpace(id)); string(r.Body) != "hello" {
		t.Errorf("read %q", r.Body)
	}
	free := e2e.Start(t, e2e.Options{})
	e2e.Refuses(t, 3, "the server has no faucet: only a local instance with --reads paid and without --chain-url has one", "pay", "--account-file", account,
		"--state-file", filepath.Join(dir, "free.json"), "--url", free.URL, "--faucet", "1", "--max-price", "1", "--max-spend", "1")
}
