package payments

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/e2e"
)

// ways returns the two ways to spend a micropayment, each for 2 chunksets.
func ways(s *e2e.Server, target string) map[string]func(micropayment string) e2e.Response {
	return map[string]func(string) e2e.Response{
		"buy":  func(m string) e2e.Response { return s.Do("POST", "/v1/sessions", e2e.PurchaseBody(s.T, m, "")) },
		"read": func(m string) e2e.Response { return s.Do("GET", target, nil, "X-Shelby-Micropayment", m) },
	}
}

// TestFlippedPayments flips bits all over a valid micropayment.
func TestFlippedPayments(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	c := s.Open(s.Payer(1), 1<<62)
	good := decoded(t, c.Next(20))
	codes := map[string]int{}
	for bit := 0; bit < 8*len(good); bit += 3 {
		flipped := slices.Clone(good)
		flipped[bit/8] ^= 1 << (bit % 8)
		r := s.Do("POST", "/v1/sessions", e2e.PurchaseBody(t, e2e.AsBase64(flipped), ""))
		switch r.Status {
		case 400:
			codes[e2e.CheckProblem(t, r, 400, "micropayment_malformed")]++
		case 402:
			codes[e2e.CheckProblem(t, r, 402, "micropayment_refused")]++
		default:
			t.Fatalf("with bit %d flipped: %v", bit, r)
		}
	}
	if len(codes) != 2 {
		t.Errorf("the refusals were %v", codes)
	}
	if got := c.State(); got.Accepted != "0" || len(got.Sessions) != 0 {
		t.Errorf("a flipped micropayment was accepted: %+v", got)
	}
	s.Must(201, "POST", "/v1/sessions", e2e.PurchaseBody(t, e2e.AsBase64(good), ""))
}

// TestRefusedByTheChannel checks valid micropayments that their channel's state does not allow.
// Both ways to spend them report the same numbers. The status differs if the route's own resource
// would be missing.
func TestRefusedByTheChannel(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--reads", "paid", "--chunkset-price", "10", "--unsettled-limit", "500"}})
	target := e2e.BlobTarget("0x1", "name")
	s.Must(204, "PUT", target, e2e.Content(1, e2e.ChunksetSize+1))
	for name, spend := range ways(s, target) {
		price := int64(10) // a session's minimum price
		if name == "read" {
			price = 20
		}
		c := s.Open(s.Payer(1), 1000)
		pays := c.Next(35)
		s.Must(201, "POST", "/v1/sessions", e2e.PurchaseBody(t, pays, "")) // 5 of credit
		c.Settled()
		before := c.State().Money()
		sign := func(sequence, amount uint64) string { return s.Payer(1).Sign(t, c.Number, sequence, amount).Base64() }

		for _, stale := range []string{pays, sign(1, 100), sign(0, 100), sign(2, 35), sign(2, 34), sign(2, 0), sign(1, 2000)} {
			r := spend(stale)
			e2e.CheckProblem(t, r, 409, "micropayment_stale")
			if got := e2e.Member(t, r, "storedMicropayment"); got != pays {
				t.Errorf("%s: storedMicropayment is %q, want the accepted one", name, got)
			}
		}
		funds := func(m string, required, available int64) {
			t.Helper()
			r := spend(m)
			e2e.CheckProblem(t, r, 402, "insufficient_funds")
			if a, b := e2e.Member(t, r, "required"), e2e.Member(t, r, "available"); a != fmt.Sprint(required) || b != fmt.Sprint(available) {
				t.Errorf("%s: required %s and available %s, want %d and %d", name, a, b, required, available)
			}
		}
		funds(sign(2, 1001), 1001, 1000)
		funds(sign(2, 1<<62), 1<<62, 1000)
		funds(sign(2, 35+uint64(price)-6), price, price-1)
		funds(sign(2, 36), price, 6)
		e2e.CheckProblem(t, spend(sign(2, 536)), 402, "unsettled_limit")
		if got := c.State(); got.Money() != before || len(got.Sessions) != 1 {
			t.Errorf("%s: refusals changed the channel from %q to %+v", name, before, got)
		}
		// At the limits the server accepts it, with gaps in the sequence.
		if r := spend(sign(5, 535)); r.Status >= 300 {
			t.Errorf("%s: up to the unsettled limit: %v", name, r)
		}
		c.Settled()
		if r := spend(sign(1<<63-1, 1000)); r.Status >= 300 {
			t.Errorf("%s: up to the deposit: %v", name, r)
		}
		if got := c.Settled(); got.Accepted != "1000" || got.SequenceNumber != "9223372036854775807" {
			t.Errorf("%s: at its limits the channel is %s", name, got.Money())
		}
		refusedByOthers(s, name, spend)
	}
	// The server refuses these refills because of their session, and accepts no payment.
	c := s.Open(s.Payer(1), 1000)
	e2e.CheckProblem(t, s.Do("POST", "/v1/sessions", e2e.PurchaseBody(t, c.Next(50), "unknown")), 404, "session_not_found")
	e2e.CheckProblem(t, s.Do("POST", "/v1/sessions", e2e.PurchaseBody(t, c.Again(), "micropaymentchannels")), 404, "session_not_found")
	e2e.CheckProblem(t, s.Do("POST", "/v1/sessions", []byte(`{"micropaymentUpdate":5}`)), 400, "")
	e2e.CheckProblem(t, s.Do("POST", "/v1/sessions", []byte(`{"sessionId":"unknown"}`)), 400, "")
	if got := c.State(); got.Accepted != "0" {
		t.Errorf("a refused refill was paid: %s", got.Money())
	}
}

// refusedByOthers spends over missing, closed and expired channels.
func refusedByOthers(s *e2e.Server, name string, spend func(string) e2e.Response) {
	t := s.T
	t.Helper()
	missing, gone := 404, 410
	if name == "read" {
		missing, gone = 402, 402
	}
	absent := &e2e.Channel{S: s, Payer: s.Payer(1), Number: 1}
	e2e.CheckProblem(t, spend(absent.Next(50)), missing, "channel_not_found")
	closed := s.Open(s.Payer(1), 1000)
	s.Must(200, "POST", e2e.Channels+"/"+closed.ID+"/close", nil)
	e2e.CheckProblem(t, spend(closed.Next(50)), gone, "channel_closed")
	var opened e2e.Response
	e2e.LongEnough(t, 300*time.Millisecond, func(life time.Duration) bool {
		soon := time.Now().Add(life).Format(time.RFC3339Nano)
		opened = s.Do("POST", e2e.Channels, e2e.AsJSON(t, map[string]any{"userIdentity": closed.Payer.Signer.Address().String(), "expires": soon, "deposit": "1000"}))
		return opened.Status == 201
	})
	brief := s.Opened(closed.Payer, opened)
	s.Eventually("the channel does not expire", func() bool { return brief.State().State == "expired" })
	e2e.CheckProblem(t, spend(brief.Next(50)), gone, "channel_expired")
	e2e.CheckProblem(t, s.Do("POST", e2e.Channels+"/"+brief.ID+"/deposit", []byte(`{"amount":"1"}`)), 410, "channel_expired")
	s.Must(200, "POST", e2e.Channels+"/"+brief.ID+"/close", nil)
	if got := brief.State(); got.State != "closed" || got.Accepted != "0" {
		t.Errorf("%s: the expired channel is %s after its close", name, got.Money())
	}
}

// TestExpiredSessions checks that the server refuses uses, refills and reads on expired sessions,
// and still shows them.
func TestExpiredSessions(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--reads", "paid", "--session-ttl", "300ms", "--channel-ttl", "1h"}})
	target := e2e.BlobTarget("0x1", "name")
	s.Must(204, "PUT", target, []byte("x"))
	c := s.Open(s.Payer(1), 1000)
	id := c.Buy(10).SessionID
	s.Eventually("the session does not expire", func() bool {
		return s.Do("POST", "/v1/sessions/"+id+"/use", nil).Status == 410
	})
	e2e.CheckProblem(t, s.Do("POST", "/v1/sessions/"+id+"/use", nil), 410, "session_expired")
	e2e.CheckProblem(t, s.Do("GET", target, nil, "Session-Id", id), 402, "session_expired")
	e2e.CheckProblem(t, s.Do("POST", "/v1/sessions", e2e.PurchaseBody(t, c.Next(5), id)), 410, "session_expired")
	s.Must(200, "GET", "/v1/sessions/"+id, nil)
	if got := c.Settled(); got.Accepted != "10" || len(got.Sessions) != 1 {
		t.Errorf("the channel is %+v", got)
	}
}

// TestHugeNumbers checks that the server counts amounts up to 2^63-1 exactly, and refuses larger
// ones.
func TestHugeNumbers(t *testing.T) {
	t.Parallel()
	const most = 1<<63 - 1
	s := e2e.Start(t, e2e.Options{Flags: []string{"--reads", "paid", "--chunkset-price", fmt.Sprint(1 << 61), "--unsettled-limit", fmt.Sprint(most)}})
	target := e2e.BlobTarget("0x1", "five")
	s.Must(204, "PUT", target, e2e.Content(1, 4*e2e.ChunksetSize+1))
	c := s.Open(s.Payer(1), most)
	r := s.Do("GET", target, nil, "X-Shelby-Micropayment", c.Next(most)) // 3 chunksets and a remainder
	e2e.CheckProblem(t, r, 402, "insufficient_funds")
	e2e.CheckProblem(t, s.Do("GET", target, nil), 402, "payment_required")
	if got := c.State().Money(); got != fmt.Sprintf("deposit %d accepted 0 credit 0 sequence 0 open", most) {
		t.Errorf("the channel is %q", got)
	}
	bought := e2e.AsSession(t, s.Must(201, "POST", "/v1/sessions", e2e.PurchaseBody(t, c.Again(), "")))
	if got := c.Settled().Money(); bought.ChunksetsTotal != 3 || got != fmt.Sprintf("deposit %d accepted %d credit %d sequence 1 open", most, most, 1<<61-1) {
		t.Errorf("2^63-1 units at 2^61 bought %+v, the channel is %q", bought, got)
	}
	s.Stop()
	s.Options.Flags = []string{"--unsettled-limit", fmt.Sprint(most)}
	s.Restart()
	full := s.Open(s.Payer(2), most).Buy(most)
	if full.ChunksetsTotal != most {
		t.Errorf("2^63-1 units at 1 bought %+v", full)
	}
	more := s.Open(s.Payer(3), most)
	e2e.CheckProblem(t, s.Do("POST", "/v1/sessions", e2e.PurchaseBody(t, more.Next(1), full.SessionID)), 400, "number_too_large")
	if got := more.State(); got.Accepted != "0" {
		t.Errorf("a refill that overflows was paid: %s", got.Money())
	}
}
