package e2e

import (
	"testing"

	"sluice/internal/testenv"
)

// TestHostedChannels checks that opening a channel requires a key with the scope channels for the
// paying account, which the request must name.
func TestHostedChannels(t *testing.T) {
	t.Parallel()
	s := startHosted(t, "paid")
	one, two := s.payer(1), s.payer(2)
	payer := one.signer.Address().String()
	holder := s.as(s.newKey("--scopes", "channels", "--accounts", payer))
	stranger := s.as(s.newKey("--scopes", "channels", "--accounts", two.signer.Address().String()))
	blobs := s.as(s.newKey("--scopes", "read,write", "--all-accounts"))
	all := s.asAdmin()
	named := asJSON(t, map[string]any{"userIdentity": payer, "deposit": "100"})
	unnamed := []byte(`{"deposit":"100"}`)

	for _, body := range [][]byte{named, unnamed, nil} {
		checkProblem(t, s.do("POST", channels, body), 401, "credential_required")
		checkProblem(t, blobs.do("POST", channels, body), 403, "scope_missing")
	}
	checkProblem(t, stranger.do("POST", channels, named), 403, "account_forbidden")
	for _, at := range []*server{holder, stranger, all} {
		for _, body := range [][]byte{unnamed, nil} {
			checkProblem(t, at.do("POST", channels, body), 400, "bad_parameter")
		}
	}
	c := holder.open(one, 100)
	for path, body := range map[string][]byte{"/deposit": []byte(`{"amount":"5"}`), "/close": nil} {
		checkProblem(t, s.do("POST", channels+"/"+c.id+path, body), 401, "credential_required")
		checkProblem(t, blobs.do("POST", channels+"/"+c.id+path, body), 403, "scope_missing")
		checkProblem(t, stranger.do("POST", channels+"/"+c.id+path, body), 403, "account_forbidden")
		checkProblem(t, blobs.do("POST", channels+"/absent"+path, body), 403, "scope_missing")
		checkProblem(t, holder.do("POST", channels+"/absent"+path, body), 404, "channel_not_found")
	}
	holder.must(200, "POST", channels+"/"+c.id+"/deposit", []byte(`{"amount":"5"}`))

	// Anyone who knows an id or has a micropayment may use it.
	c.s = s
	if got := c.state().money(); got != "deposit 105 accepted 0 credit 0 sequence 0 open" {
		t.Errorf("the channel is %q", got)
	}
	bought := c.buy(7)
	if state := s.sessionState(bought.SessionID); state.ChunksetsLeft != 7 {
		t.Errorf("the session is %+v", state)
	}
	s.must(200, "POST", "/v1/sessions/"+bought.SessionID+"/use", nil)
	holder.must(200, "POST", channels+"/"+c.id+"/close", nil)
	if got := c.state().State; got != "closed" {
		t.Errorf("the channel is %s", got)
	}
}

// TestHostedSessionsArePaid checks that the service grants no session without a payment.
func TestHostedSessionsArePaid(t *testing.T) {
	t.Parallel()
	for _, reads := range []string{"public", "key", "paid"} {
		s := startHosted(t, reads)
		for _, at := range []*server{s, s.asAdmin()} {
			for _, body := range []string{"", "{}", `{"userIdentity":"me"}`} {
				checkProblem(t, at.do("POST", "/v1/sessions", []byte(body)), 402, "payment_required")
			}
		}
	}
}

// TestHostedPaidReads checks that reads with a key for the account are free, and that the service
// charges for all others.
func TestHostedPaidReads(t *testing.T) {
	t.Parallel()
	s := startHosted(t, "paid")
	admin := s.asAdmin()
	target := blobTarget("bob", "name")
	data := content(1, chunksetSize+5)
	admin.must(204, "PUT", target, data)
	c := admin.open(s.payer(1), 100)
	c.s = s
	session := c.buy(10).SessionID

	reader := s.as(s.newKey("--scopes", "read", "--accounts", "bob"))
	for range 3 {
		r := reader.must(200, "GET", target, nil)
		if digest(r.body) != digest(data) || r.header.Get("Chunksets-Charged") != "" {
			t.Errorf("a read with a key: %d bytes, %v", len(r.body), r.header)
		}
	}
	for _, at := range []*server{
		s, s.as(s.newKey("--scopes", "read", "--accounts", "alice")), s.as(s.newKey("--scopes", "write,channels", "--accounts", "bob")),
	} {
		checkProblem(t, at.do("GET", target, nil), 402, "payment_required")
		checkPaid(t, at.must(200, "GET", target, nil, "Session-Id", session), "2", s.left(session))
	}
	checkProblem(t, s.do("GET", target, nil, "Authorization", "Bearer nonsense", "Session-Id", session), 401, "credential_unknown")
	if left := s.left(session); left != "4" {
		t.Errorf("%s chunksets left, want 4", left)
	}
	checkPaid(t, s.must(206, "GET", target, nil, "Range", "bytes=0-0", "X-Shelby-Micropayment", c.next(1)), "1", "0")
}

// TestPublicClientPaysHosted reads with the public client and its micropayments, without a key.
func TestPublicClientPaysHosted(t *testing.T) {
	testenv.Require(t, testenv.NPM)
	t.Parallel()
	for _, scheme := range []string{"ed25519", "secp256k1"} {
		startHosted(t, "paid", "--chunkset-price", clientPrice).asAdmin().publicClientPays(t, scheme)
	}
}
