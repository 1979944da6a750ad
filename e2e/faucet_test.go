package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestFaucet opens a channel and adds to its deposit, and checks that neither creates a session,
// and that other servers have no faucet.
func TestFaucet(t *testing.T) {
	t.Parallel()
	s := start(t, options{flags: []string{"--reads", "paid"}})
	type channel struct {
		ChannelID, PaymentChannelID, Sender, Deposit, State string
		Sessions                                            []any
	}
	fund := func(status int, body string) (c channel) {
		t.Helper()
		s.must(status, "POST", "/v1/local/faucet", []byte(body)).decode(t, &c)
		return c
	}
	first := fund(201, `{"sender": "0xA", "amount": "10"}`)
	second := fund(200, `{"sender": "0xa", "amount": 5}`)
	if first.PaymentChannelID != "1" || first.Deposit != "10" || second.ChannelID != first.ChannelID || second.Deposit != "15" || second.State != "open" || len(second.Sessions) != 0 {
		t.Errorf("%+v, and then %+v", first, second)
	}
	if own := fund(201, `{"sender": "0xa", "amount": "1", "paymentChannelId": "77"}`); own.PaymentChannelID != "77" {
		t.Errorf("%+v", own)
	}
	for body, code := range map[string]string{
		`{}`: "bad_json", `{"sender": "0xa"}`: "bad_json", `{"sender": "team", "amount": "1"}`: "bad_parameter",
		`{"sender": "0xa", "amount": "x"}`: "bad_json", `{"sender": "0xa", "amount": "9223372036854775808"}`: "number_too_large",
	} {
		s.wantCode(400, code, "POST", "/v1/local/faucet", []byte(body))
	}
	s.must(403, "POST", "/v1/local/faucet", []byte(`{"sender": "0xa", "amount": "1"}`), "Origin", "https://evil.example")
	for name, other := range map[string]*server{"public reads": start(t, options{}), "hosted": startHosted(t, "paid").asAdmin()} {
		t.Run(name, func(*testing.T) {
			for _, method := range []string{"POST", "GET", "OPTIONS"} {
				other.wantCode(404, "route_not_found", method, "/v1/local/faucet", []byte(`{"sender": "0xa", "amount": "1"}`))
			}
		})
	}
}

// TestPayFromTheFaucet walks through a payment on the command line, twice, and reads with what it
// has bought.
func TestPayFromTheFaucet(t *testing.T) {
	t.Parallel()
	s := start(t, options{flags: []string{"--reads", "paid"}})
	s.must(204, "PUT", blobTarget("0x1", "paid"), []byte("hello"))
	dir := t.TempDir()
	account := filepath.Join(dir, "account.key")
	address := prints(t, "account", "new", account)
	pay := func(chunksets string) result {
		return sluiceRuns(t, "pay", "--account-file", account, "--state-file", filepath.Join(dir, "payer.json"), "--url", s.url,
			"--faucet", "1000", "--max-price", "1", "--max-spend", "100", "--chunksets", chunksets)
	}
	var id string
	for i, test := range []struct{ chunksets, deposit, step3 string }{
		{"10", "1000", "3. The account has signed a micropayment of 10 units in all, 10 units more than before."},
		{"15", "2000", "3. The account has signed a micropayment of 15 units in all, 5 units more than before."},
		{"15", "3000", "3. The session had enough chunksets, so nothing was signed."},
	} {
		r := pay(test.chunksets)
		if r.code != 0 || i > 0 && r.stdout != id {
			t.Fatalf("%+v", r)
		}
		id = r.stdout
		session := strings.TrimSpace(id)
		for _, want := range []string{"1. Account " + address + " pays.", "whose deposit is now " + test.deposit + " units.", test.step3,
			fmt.Sprintf("curl -H 'Session-Id: %s' %s/v1/blobs/ACCOUNT/NAME", session, s.url)} {
			if !strings.Contains(r.stderr, want) {
				t.Errorf("%q does not say %q", r.stderr, want)
			}
		}
		s.must(200, "HEAD", blobTarget("0x1", "paid"), nil)
	}
	if r := s.must(200, "GET", blobTarget("0x1", "paid"), nil, "Session-Id", strings.TrimSpace(id)); string(r.body) != "hello" {
		t.Errorf("read %q", r.body)
	}
	free := start(t, options{})
	refuses(t, 3, "the server has no faucet: only a local instance with --reads paid and without --chain-url has one", "pay", "--account-file", account,
		"--state-file", filepath.Join(dir, "free.json"), "--url", free.url, "--faucet", "1", "--max-price", "1", "--max-spend", "1")
}
