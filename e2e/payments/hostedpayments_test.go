package payments

import (
	"testing"

	"sluice/e2e"
	"sluice/internal/testenv"
)

// TestHostedChannels checks that opening a channel requires a key with the scope channels for the
// paying account, which the request must name.
func TestHostedChannels(t *testing.T) {
	t.Parallel()
	s := e2e.StartHosted(t, "paid")
	one, two := s.Payer(1), s.Payer(2)
	payer := one.Signer.Address().String()
	holder := s.As(s.NewKey("--scopes", "channels", "--accounts", payer))
	stranger := s.As(s.NewKey("--scopes", "channels", "--accounts", two.Signer.Address().String()))
	blobs := s.As(s.NewKey("--scopes", "read,write", "--all-accounts"))
	all := s.AsAdmin()
	named := e2e.AsJSON(t, map[string]any{"userIdentity": payer, "deposit": "100"})
	unnamed := []byte(`{"deposit":"100"}`)

	for _, body := range [][]byte{named, unnamed, nil} {
		e2e.CheckProblem(t, s.Do("POST", e2e.Channels, body), 401, "credential_required")
		e2e.CheckProblem(t, blobs.Do("POST", e2e.Channels, body), 403, "scope_missing")
	}
	e2e.CheckProblem(t, stranger.Do("POST", e2e.Channels, named), 403, "account_forbidden")
	for _, at := range []*e2e.Server{holder, stranger, all} {
		for _, body := range [][]byte{unnamed, nil} {
			e2e.CheckProblem(t, at.Do("POST", e2e.Channels, body), 400, "bad_parameter")
		}
	}
	c := holder.Open(one, 100)
	for path, body := range map[string][]byte{"/deposit": []byte(`{"amount":"5"}`), "/close": nil} {
		e2e.CheckProblem(t, s.Do("POST", e2e.Channels+"/"+c.ID+path, body), 401, "credential_required")
		e2e.CheckProblem(t, blobs.Do("POST", e2e.Channels+"/"+c.ID+path, body), 403, "scope_missing")
		e2e.CheckProblem(t, stranger.Do("POST", e2e.Channels+"/"+c.ID+path, body), 403, "account_forbidden")
		e2e.CheckProblem(t, blobs.Do("POST", e2e.Channels+"/absent"+path, body), 403, "scope_missing")
		e2e.CheckProblem(t, holder.Do("POST", e2e.Channels+"/absent"+path, body), 404, "channel_not_found")
	}
	holder.Must(200, "POST", e2e.Channels+"/"+c.ID+"/deposit", []byte(`{"amount":"5"}`))

	// Anyone who knows an id or has a micropayment may use it.
	c.S = s
	if got := c.State().Money(); got != "deposit 105 accepted 0 credit 0 sequence 0 open" {
		t.Errorf("the channel is %q", got)
	}
	bought := c.Buy(7)
	if state := s.SessionState(bought.SessionID); state.ChunksetsLeft != 7 {
		t.Errorf("the session is %+v", state)
	}
	s.Must(200, "POST", "/v1/sessions/"+bought.SessionID+"/use", nil)
	holder.Must(200, "POST", e2e.Channels+"/"+c.ID+"/close", nil)
	if got := c.State().State; got != "closed" {
		t.Errorf("the channel is %s", got)
	}
}

// TestHostedSessionsArePaid checks that the service grants no session without a payment.
func TestHostedSessionsArePaid(t *testing.T) {
	t.Parallel()
	for _, reads := range []string{"public", "key", "paid"} {
		s := e2e.StartHosted(t, reads)
		for _, at := range []*e2e.Server{s, s.AsAdmin()} {
			for _, body := range []string{"", "{}", `{"userIdentity":"me"}`} {
				e2e.CheckProblem(t, at.Do("POST", "/v1/sessions", []byte(body)), 402, "payment_required")
			}
		}
	}
}

// TestHostedPaidReads checks that reads with a key for the account are free, and that the service
// charges for all others.
func TestHostedPaidReads(t *testing.T) {
	t.Parallel()
	s := e2e.StartHosted(t, "paid")
	admin := s.AsAdmin()
	target := e2e.BlobTarget("bob", "name")
	data := e2e.Content(1, e2e.ChunksetSize+5)
	admin.Must(204, "PUT", target, data)
	c := admin.Open(s.Payer(1), 100)
	c.S = s
	session := c.Buy(10).SessionID

	reader := s.As(s.NewKey("--scopes", "read", "--accounts", "bob"))
	for range 3 {
		r := reader.Must(200, "GET", target, nil)
		if e2e.Digest(r.Body) != e2e.Digest(data) || r.Header.Get("Chunksets-Charged") != "" {
			t.Errorf("a read with a key: %d bytes, %v", len(r.Body), r.Header)
		}
	}
	for _, at := range []*e2e.Server{
		s, s.As(s.NewKey("--scopes", "read", "--accounts", "alice")), s.As(s.NewKey("--scopes", "write,channels", "--accounts", "bob")),
	} {
		e2e.CheckProblem(t, at.Do("GET", target, nil), 402, "payment_required")
		e2e.CheckPaid(t, at.Must(200, "GET", target, nil, "Session-Id", session), "2", s.Left(session))
	}
	e2e.CheckProblem(t, s.Do("GET", target, nil, "Authorization", "Bearer nonsense", "Session-Id", session), 401, "credential_unknown")
	if left := s.Left(session); left != "4" {
		t.Errorf("%s chunksets left, want 4", left)
	}
	e2e.CheckPaid(t, s.Must(206, "GET", target, nil, "Range", "bytes=0-0", "X-Shelby-Micropayment", c.Next(1)), "1", "0")
}

// TestPublicClientPaysHosted reads with the public client and its micropayments, without a key.
func TestPublicClientPaysHosted(t *testing.T) {
	testenv.Require(t, testenv.NPM)
	t.Parallel()
	for _, scheme := range []string{"ed25519", "secp256k1"} {
		publicClientPays(e2e.StartHosted(t, "paid", "--chunkset-price", clientPrice).AsAdmin(), t, scheme)
	}
}
