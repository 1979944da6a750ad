package payments

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/internal/testenv"
)

// TestPaymentRace sends one micropayment 200 times concurrently, to buy and to read.
func TestPaymentRace(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--reads", "paid"}})
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "raced"), e2e.Content(1, 1000))
	c := s.Open(s.Payer(1), 1000)
	pays := c.Next(30)
	body := e2e.PurchaseBody(t, pays, "")
	race(s, 200, 201, pays, func() (e2e.Response, error) { return s.Try("POST", "/v1/sessions", body) })
	if got := c.Settled(); got.Money() != "deposit 1000 accepted 30 credit 0 sequence 1 open" || len(got.Sessions) != 1 || got.Sessions[0].ChunksetsLeft != 30 {
		t.Errorf("after the race the channel is %+v", got)
	}

	pays = c.Next(5)
	race(s, 200, 200, pays, func() (e2e.Response, error) {
		return s.Try("GET", e2e.BlobTarget("0x1", "raced"), nil, "X-Shelby-Micropayment", pays)
	})
	if got := c.Settled(); got.Money() != "deposit 1000 accepted 35 credit 4 sequence 2 open" {
		t.Errorf("after the race of reads the channel is %s", got.Money())
	}
}

// race sends a request many times concurrently: one response must have the status, and all others
// must report the accepted micropayment as the stored one.
func race(s *e2e.Server, count, status int, micropayment string, send func() (e2e.Response, error)) {
	s.T.Helper()
	won := 0
	for _, r := range s.AtOnce(count, func(int) (e2e.Response, error) { return send() }) {
		if r.Status == status {
			won++
			continue
		}
		e2e.CheckProblem(s.T, r, 409, "micropayment_stale")
		if got := e2e.Member(s.T, r, "storedMicropayment"); got != micropayment {
			s.T.Errorf("storedMicropayment is %q, want the accepted one", got)
		}
	}
	if won != 1 {
		s.T.Errorf("%d of %d equal payments were accepted, want 1", won, count)
	}
}

// TestDifferentPaymentsRace sends many micropayments of one channel concurrently. The last one must
// be among the accepted ones, and every unit must be sold once.
func TestDifferentPaymentsRace(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--chunkset-price", "2"}})
	c := s.Open(s.Payer(1), 1000)
	bodies := make([][]byte, 100)
	for i := range bodies {
		bodies[i] = e2e.PurchaseBody(t, c.Next(7), "")
	}
	var sold int64
	for _, r := range s.AtOnce(len(bodies), func(i int) (e2e.Response, error) { return s.Try("POST", "/v1/sessions", bodies[i]) }) {
		if r.Status == 201 {
			sold += e2e.AsSession(t, r).ChunksetsTotal
			continue
		}
		e2e.CheckProblem(t, r, 409, "micropayment_stale")
	}
	if got := c.Settled(); got.Accepted != "700" || got.SequenceNumber != "100" || 2*sold+e2e.Number(t, got.Credit) != 700 {
		t.Errorf("%d chunksets were sold at 2, the channel is %s", sold, got.Money())
	}
}

// TestPaymentIdempotency repeats every operation that charges with the same key: it must count
// once.
func TestPaymentIdempotency(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Dirty: true})
	one, two := s.Payer(1), s.Payer(2)

	opening := []byte(`{"deposit":"100"}`)
	opened := s.Must(201, "POST", e2e.Channels, opening, "Idempotency-Key", "k")
	repeats := []func(){func() {
		if r := s.Must(201, "POST", e2e.Channels, opening, "Idempotency-Key", "k"); e2e.Text(t, r.Object(t), "channelId") != e2e.Text(t, opened.Object(t), "channelId") {
			t.Errorf("repeated open: %v, first %v", r, opened)
		}
		e2e.CheckProblem(t, s.Do("POST", e2e.Channels, []byte(`{"deposit":"101"}`), "Idempotency-Key", "k"), 422, "idempotency_key_reused")
	}}

	c := s.Opened(one, opened)
	deposit := e2e.Channels + "/" + c.ID + "/deposit"
	add := func() {
		var state e2e.ChannelState
		if s.Must(200, "POST", deposit, []byte(`{"amount":"11"}`), "Idempotency-Key", "k").Decode(t, &state); state.Deposit != "111" {
			t.Errorf("the deposit is %s, want 111", state.Deposit)
		}
		e2e.CheckProblem(t, s.Do("POST", deposit, []byte(`{"amount":"12"}`), "Idempotency-Key", "k"), 422, "idempotency_key_reused")
	}
	repeats = append(repeats, add)
	add()

	paying := e2e.PurchaseBody(t, c.Next(10), "")
	bought := s.Must(201, "POST", "/v1/sessions", paying, "Idempotency-Key", "k")
	id := e2e.AsSession(t, bought).SessionID
	repeats = append(repeats, func() {
		if r := s.Must(201, "POST", "/v1/sessions", paying, "Idempotency-Key", "k"); string(r.Body) != string(bought.Body) {
			t.Errorf("repeated purchase: %v, first %v", r, bought)
		}
		e2e.CheckProblem(t, s.Do("POST", "/v1/sessions", e2e.PurchaseBody(t, c.Again(), id), "Idempotency-Key", "k"), 422, "idempotency_key_reused")
	})

	paying2 := e2e.PurchaseBody(t, c.Next(5), id)
	refilled := s.Must(200, "POST", "/v1/sessions", paying2, "Idempotency-Key", "k2")
	repeats = append(repeats, func() {
		if r := s.Must(200, "POST", "/v1/sessions", paying2, "Idempotency-Key", "k2"); string(r.Body) != string(refilled.Body) {
			t.Errorf("repeated refill: %v, first %v", r, refilled)
		}
	})

	use := "/v1/sessions/" + id + "/use"
	used := func() {
		if r := s.Must(200, "POST", use, nil, "Idempotency-Key", "k"); r.Header.Get("Chunksets-Left") != "14" {
			t.Errorf("used with a key: %v", r)
		}
		e2e.CheckProblem(t, s.Do("POST", use, []byte("{}"), "Idempotency-Key", "k"), 422, "idempotency_key_reused")
	}
	repeats = append(repeats, used)
	used()

	// The same key of another payer is a different key, and a forgery gets no session.
	c2 := s.Open(two, 100)
	if r := s.Must(201, "POST", "/v1/sessions", e2e.PurchaseBody(t, c2.Next(10), ""), "Idempotency-Key", "k"); e2e.AsSession(t, r).SessionID == id {
		t.Errorf("a key of one payer returned the session to another")
	}
	forged := slices.Clone(decoded(t, c.Again()))
	forged[len(forged)-1] ^= 1
	e2e.CheckProblem(t, s.Do("POST", "/v1/sessions", e2e.PurchaseBody(t, e2e.AsBase64(forged), id), "Idempotency-Key", "k2"), 402, "micropayment_refused")

	check := func() {
		t.Helper()
		for _, repeat := range repeats {
			repeat()
		}
		if got := c.Settled(); got.Money() != "deposit 111 accepted 15 credit 0 sequence 2 open" || len(got.Sessions) != 1 || got.Sessions[0].ChunksetsLeft != 14 {
			t.Errorf("after the repetitions the channel is %+v", got)
		}
	}
	check()
	s.Kill()
	s.Restart()
	check()
}

// TestLostResponses checks that a payer who did not receive the response finds what the payment has
// bought, by the Idempotency-Key and in the channel's state.
func TestLostResponses(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	c := s.Open(s.Payer(1), 1_000_000)
	var sessions []string
	for round := range 20 {
		pays := c.Next(3)
		body := e2e.PurchaseBody(t, pays, "")
		key := fmt.Sprint("key-", round)
		request := fmt.Sprintf("POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%s", key, len(body), body)
		connection := s.Dial()
		s.Write(connection, request)
		if round%2 == 0 {
			// The response is in flight, or not read, when the connection is cut.
			want := fmt.Sprint(c.Amount)
			s.Eventually("a payment without a reader is not accepted", func() bool { return c.State().Accepted == want })
		}
		testenv.OK(t, connection.SetLinger(0))
		testenv.OK(t, connection.Close())
		bought := e2e.AsSession(t, s.Must(201, "POST", "/v1/sessions", body, "Idempotency-Key", key))
		if bought.ChunksetsTotal != 3 {
			t.Errorf("round %d: the payment bought %+v", round, bought)
		}
		sessions = append(sessions, bought.SessionID)

		// Without the key the payer finds that the server has accepted the payment, and finds the
		// session, first in the list.
		lost := s.Do("POST", "/v1/sessions", body)
		e2e.CheckProblem(t, lost, 409, "micropayment_stale")
		if got := e2e.Member(t, lost, "storedMicropayment"); got != pays {
			t.Errorf("round %d: the stored micropayment is another one", round)
		}
		if got := c.State(); len(got.Sessions) != round+1 || got.Sessions[0].SessionID != bought.SessionID || got.Sessions[0].ChunksetsLeft != 3 {
			t.Errorf("round %d: the channel's sessions are %+v, want %s first", round, got.Sessions, bought.SessionID)
		}
	}
	if len(slices.Compact(slices.Sorted(slices.Values(sessions)))) != 20 {
		t.Errorf("20 payments bought the sessions %q", sessions)
	}
	if got := c.Settled(); got.Accepted != "60" || got.Credit != "0" {
		t.Errorf("the channel is %s", got.Money())
	}
}

// TestPaymentLogs plants secrets in all fields and searches the log for them.
func TestPaymentLogs(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--reads", "paid"}})
	target := e2e.BlobTarget("0x1", "name")
	s.Must(204, "PUT", target, e2e.Content(1, 1000))
	c := s.Open(s.Payer(1), 1000)
	ids := []string{c.ID}
	payments := []string{c.Next(10)}
	bought := e2e.AsSession(t, s.Must(201, "POST", "/v1/sessions", e2e.PurchaseBody(t, payments[0], ""), "Idempotency-Key", "Kq4Vz8Wp1Ls6Tj"))
	ids = append(ids, bought.SessionID)
	s.Must(409, "POST", "/v1/sessions", e2e.PurchaseBody(t, payments[0], bought.SessionID))
	s.Must(200, "GET", target, nil, "Session-Id", bought.SessionID)
	s.Must(200, "POST", "/v1/sessions/"+bought.SessionID+"/use", nil)
	s.Must(200, "GET", "/v1/sessions/"+bought.SessionID, nil)
	s.Must(402, "GET", target, nil, "Session-Id", "Zq7Xw9Kd3Mf5Rt8Yh2Bn")
	s.Must(400, "GET", target, nil, "Session-Id", bought.SessionID, "X-Shelby-Micropayment", payments[0])
	payments = append(payments, c.Next(3))
	s.Must(200, "GET", target, nil, "X-Shelby-Micropayment", payments[1])
	s.Must(409, "GET", target, nil, "X-Shelby-Micropayment", payments[1])
	s.Must(400, "GET", target, nil, "X-Shelby-Micropayment", payments[1]+"AAAA")
	payments = append(payments, c.Next(100000))
	s.Must(402, "GET", target, nil, "X-Shelby-Micropayment", payments[2])
	s.Must(404, "POST", "/v1/sessions/Jc4Gv6Ls1Pz0Ua3Ewx9T/use", nil)
	s.Must(404, "POST", e2e.Channels+"/Oi5Df8Hk2Nb7Qy4Wm6Sr/close", nil)
	s.Must(200, "POST", e2e.Channels+"/"+c.ID+"/deposit", []byte(`{"amount":"5"}`))
	s.Must(200, "GET", e2e.Channels+"/"+c.ID, nil)
	s.Must(200, "POST", e2e.Channels+"/"+c.ID+"/close", nil)
	last := s.Must(200, "GET", "/v1/info", nil).Header.Get("X-Request-Id")
	s.Stop()

	log := s.Log.String()
	if !strings.Contains(log, last) {
		t.Fatalf("the log does not contain the last request:\n%s", e2e.Tail(log))
	}
	for _, id := range append(ids, "Zq7Xw9Kd3Mf5Rt8Yh2Bn", "Jc4Gv6Ls1Pz0Ua3Ewx9T", "Oi5Df8Hk2Nb7Qy4Wm6Sr", "Kq4Vz8Wp1Ls6Tj") {
		if found := e2e.Piece(log, id, 7); found != "" {
			t.Errorf("the log contains %q of %q:\n%s", found, id, e2e.Tail(log))
		}
	}
	for _, payment := range payments {
		bytes := decoded(t, payment)
		proof := fmt.Sprintf("%x", bytes[271:]) // key and signature
		for _, form := range []string{payment, proof, strings.ToUpper(proof), fmt.Sprintf("%d", bytes[271:])} {
			if found := e2e.Piece(log, form, 20); found != "" {
				t.Errorf("the log contains %q of a micropayment:\n%s", found, e2e.Tail(log))
			}
		}
	}
}
