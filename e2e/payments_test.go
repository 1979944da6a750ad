package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestPaymentWalk tests a complete sequence: open, pay, look up, use, read until no chunkset is
// left, pay more, deposit, close.
func TestPaymentWalk(t *testing.T) {
	t.Parallel()
	s := start(t, options{flags: []string{"--reads", "paid", "--chunkset-price", "3"}})
	target := blobTarget("0x1", "walk")
	data := content(1, chunksetSize+1)
	s.must(204, "PUT", target, data)
	payer := s.payer(1)

	c := s.opened(payer, s.must(201, "POST", channels, nil)) // the public client sends no body
	if before := c.state(); before.Sender != "" || before.Accepted != "0" || before.SequenceNumber != "0" || len(before.Sessions) != 0 {
		t.Errorf("a fresh channel is %+v", before)
	}
	bought := c.buy(20)
	if bought.ChunksetsLeft != 6 || bought.ChunksetsTotal != 6 || !idForm.MatchString(bought.SessionID) {
		t.Fatalf("20 units at 3 bought %+v, want 6 chunksets", bought)
	}
	paid := c.settled()
	if want := fmt.Sprintf("deposit %s accepted 20 credit 2 sequence 1 open", paid.Deposit); paid.money() != want {
		t.Errorf("the channel is %q, want %q", paid.money(), want)
	}
	if paid.Sender != payer.signer.Address().String() {
		t.Errorf("the channel's sender is %q, want the payer", paid.Sender)
	}
	if len(paid.Sessions) != 1 || paid.Sessions[0].SessionID != bought.SessionID || paid.Sessions[0].ChunksetsLeft != 6 {
		t.Errorf("the channel's sessions are %+v", paid.Sessions)
	}

	if r := s.must(200, "POST", "/v1/sessions/"+bought.SessionID+"/use", nil); len(r.body) != 0 || r.header.Get("Chunksets-Left") != "5" {
		t.Errorf("use: %v", r)
	}
	for left := 3; left > 0; left -= 2 {
		r := s.must(200, "GET", target, nil, "Session-Id", bought.SessionID)
		checkPaid(t, r, "2", fmt.Sprint(left))
		if digest(r.body) != digest(data) {
			t.Errorf("a paid read returned other bytes")
		}
	}
	short := s.do("GET", target, nil, "Session-Id", bought.SessionID)
	checkProblem(t, short, 402, "no_chunksets_left")
	if left := s.left(bought.SessionID); left != "1" {
		t.Errorf("%s chunksets left after a refused read, want 1", left)
	}
	checkPaid(t, s.must(206, "GET", target, nil, "Session-Id", bought.SessionID, "Range", "bytes=0-0"), "1", "0")

	// 4 units and a credit of 2 pay for two chunksets.
	refilled := asSession(t, s.must(200, "POST", "/v1/sessions", purchaseBody(t, c.next(4), bought.SessionID)))
	if refilled.SessionID != bought.SessionID || refilled.ChunksetsLeft != 2 || refilled.ChunksetsTotal != 8 {
		t.Errorf("the refilled session is %+v", refilled)
	}
	checkPaid(t, s.must(200, "GET", target, nil, "Session-Id", bought.SessionID), "2", "0")
	c.closes(refilled.SessionID)
}

// closes adds to the channel's deposit and closes it twice.
func (c *channel) closes(sessionID string) {
	s, t := c.s, c.s.t
	t.Helper()
	before := number(t, c.settled().Deposit)
	var state channelState
	s.must(200, "POST", channels+"/"+c.id+"/deposit", []byte(`{"amount":"500"}`)).decode(t, &state)
	if want := fmt.Sprint(before + 500); state.Deposit != want || c.state().Deposit != want {
		t.Errorf("the deposit is %s, want %s", state.Deposit, want)
	}
	for _, body := range []string{`{}`, `{"amount":"-1"}`, `{"amount":"x"}`, `{"amount":1.5}`} {
		checkProblem(t, s.do("POST", channels+"/"+c.id+"/deposit", []byte(body)), 400, "")
	}
	checkProblem(t, s.do("POST", channels+"/"+c.id+"/deposit", []byte(`{"amount":"9223372036854775808"}`)), 400, "number_too_large")
	checkProblem(t, s.do("POST", channels+"/"+c.id+"/deposit", []byte(`{"amount":"9223372036854775807"}`)), 400, "number_too_large")

	first := s.must(200, "POST", channels+"/"+c.id+"/close", nil)
	checkChannelForm(t, first)
	closed := first.object(t)
	for name, want := range map[string]string{"state": "closed", "accepted": "24", "settled": "24", "unsettled": "0", "credit": "0",
		"refund": fmt.Sprint(before + 500 - 24)} {
		if got := text(t, closed, name); got != want {
			t.Errorf("close: %s is %q, want %q", name, got, want)
		}
	}
	if again := s.must(200, "POST", channels+"/"+c.id+"/close", nil); string(again.body) != string(first.body) {
		t.Errorf("a repeated close returned %s, the first one %s", again.body, first.body)
	}
	checkProblem(t, s.do("POST", "/v1/sessions", purchaseBody(t, c.next(3), "")), 410, "channel_closed")
	checkProblem(t, s.do("POST", "/v1/sessions", purchaseBody(t, c.next(3), sessionID)), 410, "channel_closed")
	checkProblem(t, s.do("POST", channels+"/"+c.id+"/deposit", []byte(`{"amount":"1"}`)), 410, "channel_closed")
	for _, operation := range []string{"/deposit", "/close"} {
		checkProblem(t, s.do("POST", channels+"/absent"+operation, []byte(`{"amount":"1"}`)), 404, "channel_not_found")
	}
	if after := c.state(); after.Accepted != "24" || after.State != "closed" {
		t.Errorf("the closed channel is %s", after.money())
	}
}

// TestChannelIdentity checks that a bound channel keeps its one sender permanently, and an unbound
// one to the first sender who pays over it.
func TestChannelIdentity(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	one, two := s.payer(1), s.payer(2)
	open := func(userIdentity string) response {
		body := map[string]any{"paymentChannelId": "7", "deposit": "100"}
		if userIdentity != "" {
			body["userIdentity"] = userIdentity
		}
		return s.do("POST", channels, asJSON(t, body))
	}
	unbound := s.opened(one, open(""))
	for _, identity := range []string{"", one.signer.Address().String(), two.signer.Address().String()} {
		checkProblem(t, open(identity), 409, "channel_exists")
	}
	// A refused payment does not bind a channel.
	checkProblem(t, s.do("POST", "/v1/sessions", purchaseBody(t, one.sign(t, 7, 1, 101).Base64(), "")), 402, "insufficient_funds")
	nothing := s.do("POST", "/v1/sessions", purchaseBody(t, one.sign(t, 7, 1, 0).Base64(), ""))
	checkProblem(t, nothing, 409, "micropayment_stale")
	if strings.Contains(string(nothing.body), "storedMicropayment") {
		t.Errorf("a channel without a payment has a stored micropayment: %s", nothing.body)
	}
	if got := unbound.state(); got.Sender != "" || got.Accepted != "0" {
		t.Errorf("refused payments made the channel %+v", got)
	}
	unbound.buy(10)
	other := &channel{s: s, payer: two, number: 7}
	checkProblem(t, s.do("POST", "/v1/sessions", purchaseBody(t, other.next(20), "")), 404, "channel_not_found")
	if got := unbound.state(); got.Sender != one.signer.Address().String() || got.Accepted != "10" {
		t.Errorf("after a payment of another sender the channel is %+v", got)
	}
	// Now that the channel is bound, its number is free for others, once for each sender.
	checkProblem(t, open(one.signer.Address().String()), 409, "channel_exists")
	checkProblem(t, open(""), 409, "channel_exists")
	second := s.opened(two, open(two.signer.Address().String()))
	checkProblem(t, open(two.signer.Address().String()), 409, "channel_exists")
	second.buy(5)
	s.must(200, "POST", channels+"/"+unbound.id+"/close", nil)
	checkProblem(t, open(one.signer.Address().String()), 409, "channel_exists") // permanently
	if a, b := unbound.state().Accepted, second.state().Accepted; a != "10" || b != "5" {
		t.Errorf("the channels accepted %s and %s, want 10 and 5", a, b)
	}
}

// TestPaymentRace sends one micropayment 200 times concurrently, to buy and to read.
func TestPaymentRace(t *testing.T) {
	t.Parallel()
	s := start(t, options{flags: []string{"--reads", "paid"}})
	s.must(204, "PUT", blobTarget("0x1", "raced"), content(1, 1000))
	c := s.open(s.payer(1), 1000)
	pays := c.next(30)
	body := purchaseBody(t, pays, "")
	s.race(200, 201, pays, func() (response, error) { return s.try("POST", "/v1/sessions", body) })
	if got := c.settled(); got.money() != "deposit 1000 accepted 30 credit 0 sequence 1 open" || len(got.Sessions) != 1 || got.Sessions[0].ChunksetsLeft != 30 {
		t.Errorf("after the race the channel is %+v", got)
	}

	pays = c.next(5)
	s.race(200, 200, pays, func() (response, error) {
		return s.try("GET", blobTarget("0x1", "raced"), nil, "X-Shelby-Micropayment", pays)
	})
	if got := c.settled(); got.money() != "deposit 1000 accepted 35 credit 4 sequence 2 open" {
		t.Errorf("after the race of reads the channel is %s", got.money())
	}
}

// race sends a request many times concurrently: one response must have the status, and all others
// must report the accepted micropayment as the stored one.
func (s *server) race(count, status int, micropayment string, send func() (response, error)) {
	s.t.Helper()
	won := 0
	for _, r := range s.atOnce(count, func(int) (response, error) { return send() }) {
		if r.status == status {
			won++
			continue
		}
		checkProblem(s.t, r, 409, "micropayment_stale")
		if got := member(s.t, r, "storedMicropayment"); got != micropayment {
			s.t.Errorf("storedMicropayment is %q, want the accepted one", got)
		}
	}
	if won != 1 {
		s.t.Errorf("%d of %d equal payments were accepted, want 1", won, count)
	}
}

// atOnce sends many concurrent requests and returns the responses.
func (s *server) atOnce(count int, send func(i int) (response, error)) []response {
	s.t.Helper()
	answers := make([]response, count)
	var senders sync.WaitGroup
	for i := range count {
		senders.Go(func() {
			r, err := send(i)
			if err != nil {
				s.t.Error(err)
			}
			answers[i] = r
		})
	}
	senders.Wait()
	// Idle connections would delay a shutdown.
	client.CloseIdleConnections()
	return answers
}

// TestDifferentPaymentsRace sends many micropayments of one channel concurrently. The last one must
// be among the accepted ones, and every unit must be sold once.
func TestDifferentPaymentsRace(t *testing.T) {
	t.Parallel()
	s := start(t, options{flags: []string{"--chunkset-price", "2"}})
	c := s.open(s.payer(1), 1000)
	bodies := make([][]byte, 100)
	for i := range bodies {
		bodies[i] = purchaseBody(t, c.next(7), "")
	}
	var sold int64
	for _, r := range s.atOnce(len(bodies), func(i int) (response, error) { return s.try("POST", "/v1/sessions", bodies[i]) }) {
		if r.status == 201 {
			sold += asSession(t, r).ChunksetsTotal
			continue
		}
		checkProblem(t, r, 409, "micropayment_stale")
	}
	if got := c.settled(); got.Accepted != "700" || got.SequenceNumber != "100" || 2*sold+number(t, got.Credit) != 700 {
		t.Errorf("%d chunksets were sold at 2, the channel is %s", sold, got.money())
	}
}

// TestPaymentIdempotency repeats every operation that charges with the same key: it must count
// once.
func TestPaymentIdempotency(t *testing.T) {
	t.Parallel()
	s := start(t, options{dirty: true})
	one, two := s.payer(1), s.payer(2)

	opening := []byte(`{"deposit":"100"}`)
	opened := s.must(201, "POST", channels, opening, "Idempotency-Key", "k")
	repeats := []func(){func() {
		if r := s.must(201, "POST", channels, opening, "Idempotency-Key", "k"); text(t, r.object(t), "channelId") != text(t, opened.object(t), "channelId") {
			t.Errorf("repeated open: %v, first %v", r, opened)
		}
		checkProblem(t, s.do("POST", channels, []byte(`{"deposit":"101"}`), "Idempotency-Key", "k"), 422, "idempotency_key_reused")
	}}

	c := s.opened(one, opened)
	deposit := channels + "/" + c.id + "/deposit"
	add := func() {
		var state channelState
		if s.must(200, "POST", deposit, []byte(`{"amount":"11"}`), "Idempotency-Key", "k").decode(t, &state); state.Deposit != "111" {
			t.Errorf("the deposit is %s, want 111", state.Deposit)
		}
		checkProblem(t, s.do("POST", deposit, []byte(`{"amount":"12"}`), "Idempotency-Key", "k"), 422, "idempotency_key_reused")
	}
	repeats = append(repeats, add)
	add()

	paying := purchaseBody(t, c.next(10), "")
	bought := s.must(201, "POST", "/v1/sessions", paying, "Idempotency-Key", "k")
	id := asSession(t, bought).SessionID
	repeats = append(repeats, func() {
		if r := s.must(201, "POST", "/v1/sessions", paying, "Idempotency-Key", "k"); string(r.body) != string(bought.body) {
			t.Errorf("repeated purchase: %v, first %v", r, bought)
		}
		checkProblem(t, s.do("POST", "/v1/sessions", purchaseBody(t, c.again(), id), "Idempotency-Key", "k"), 422, "idempotency_key_reused")
	})

	paying2 := purchaseBody(t, c.next(5), id)
	refilled := s.must(200, "POST", "/v1/sessions", paying2, "Idempotency-Key", "k2")
	repeats = append(repeats, func() {
		if r := s.must(200, "POST", "/v1/sessions", paying2, "Idempotency-Key", "k2"); string(r.body) != string(refilled.body) {
			t.Errorf("repeated refill: %v, first %v", r, refilled)
		}
	})

	use := "/v1/sessions/" + id + "/use"
	used := func() {
		if r := s.must(200, "POST", use, nil, "Idempotency-Key", "k"); r.header.Get("Chunksets-Left") != "14" {
			t.Errorf("used with a key: %v", r)
		}
		checkProblem(t, s.do("POST", use, []byte("{}"), "Idempotency-Key", "k"), 422, "idempotency_key_reused")
	}
	repeats = append(repeats, used)
	used()

	// The same key of another payer is a different key, and a forgery gets no session.
	c2 := s.open(two, 100)
	if r := s.must(201, "POST", "/v1/sessions", purchaseBody(t, c2.next(10), ""), "Idempotency-Key", "k"); asSession(t, r).SessionID == id {
		t.Errorf("a key of one payer returned the session to another")
	}
	forged := slices.Clone(decoded(t, c.again()))
	forged[len(forged)-1] ^= 1
	checkProblem(t, s.do("POST", "/v1/sessions", purchaseBody(t, asBase64(forged), id), "Idempotency-Key", "k2"), 402, "micropayment_refused")

	check := func() {
		t.Helper()
		for _, repeat := range repeats {
			repeat()
		}
		if got := c.settled(); got.money() != "deposit 111 accepted 15 credit 0 sequence 2 open" || len(got.Sessions) != 1 || got.Sessions[0].ChunksetsLeft != 14 {
			t.Errorf("after the repetitions the channel is %+v", got)
		}
	}
	check()
	s.kill()
	s.restart()
	check()
}

// TestRefusedPaymentIsNotRemembered checks that a client can use a key again after the server has
// refused its request, also for the same request.
func TestRefusedPaymentIsNotRemembered(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.open(s.payer(1), 10)
	body := purchaseBody(t, c.next(15), "")
	checkProblem(t, s.do("POST", "/v1/sessions", body, "Idempotency-Key", "k"), 402, "insufficient_funds")
	s.must(200, "POST", channels+"/"+c.id+"/deposit", []byte(`{"amount":"5"}`))
	s.must(201, "POST", "/v1/sessions", body, "Idempotency-Key", "k")
}

// TestPaymentIdempotencyRace sends one purchase with a key many times concurrently: all responses
// must contain the same session.
func TestPaymentIdempotencyRace(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.open(s.payer(1), 1000)
	body := purchaseBody(t, c.next(10), "")
	bodies := map[string]int{}
	for _, r := range s.atOnce(50, func(int) (response, error) {
		return s.try("POST", "/v1/sessions", body, "Idempotency-Key", "k")
	}) {
		bodies[fmt.Sprintf("%d %s", r.status, r.body)]++
	}
	if len(bodies) != 1 || len(c.state().Sessions) != 1 {
		t.Errorf("equal purchases with one key got different responses: %v", bodies)
	}
}

// TestLostResponses checks that a payer who did not receive the response finds what the payment has
// bought, by the Idempotency-Key and in the channel's state.
func TestLostResponses(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.open(s.payer(1), 1_000_000)
	var sessions []string
	for round := range 20 {
		pays := c.next(3)
		body := purchaseBody(t, pays, "")
		key := fmt.Sprint("key-", round)
		request := fmt.Sprintf("POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%s", key, len(body), body)
		connection := s.dial()
		s.write(connection, request)
		if round%2 == 0 {
			// The response is in flight, or not read, when the connection is cut.
			want := fmt.Sprint(c.amount)
			s.eventually("a payment without a reader is not accepted", func() bool { return c.state().Accepted == want })
		}
		if err := connection.SetLinger(0); err != nil {
			t.Fatal(err)
		}
		if err := connection.Close(); err != nil {
			t.Fatal(err)
		}
		bought := asSession(t, s.must(201, "POST", "/v1/sessions", body, "Idempotency-Key", key))
		if bought.ChunksetsTotal != 3 {
			t.Errorf("round %d: the payment bought %+v", round, bought)
		}
		sessions = append(sessions, bought.SessionID)

		// Without the key the payer finds that the server has accepted the payment, and finds the
		// session, first in the list.
		lost := s.do("POST", "/v1/sessions", body)
		checkProblem(t, lost, 409, "micropayment_stale")
		if got := member(t, lost, "storedMicropayment"); got != pays {
			t.Errorf("round %d: the stored micropayment is another one", round)
		}
		if got := c.state(); len(got.Sessions) != round+1 || got.Sessions[0].SessionID != bought.SessionID || got.Sessions[0].ChunksetsLeft != 3 {
			t.Errorf("round %d: the channel's sessions are %+v, want %s first", round, got.Sessions, bought.SessionID)
		}
	}
	if len(slices.Compact(slices.Sorted(slices.Values(sessions)))) != 20 {
		t.Errorf("20 payments bought the sessions %q", sessions)
	}
	if got := c.settled(); got.Accepted != "60" || got.Credit != "0" {
		t.Errorf("the channel is %s", got.money())
	}
}

// TestPaymentLogs plants secrets in all fields and searches the log for them.
func TestPaymentLogs(t *testing.T) {
	t.Parallel()
	s := start(t, options{flags: []string{"--reads", "paid"}})
	target := blobTarget("0x1", "name")
	s.must(204, "PUT", target, content(1, 1000))
	c := s.open(s.payer(1), 1000)
	ids := []string{c.id}
	payments := []string{c.next(10)}
	bought := asSession(t, s.must(201, "POST", "/v1/sessions", purchaseBody(t, payments[0], ""), "Idempotency-Key", "Kq4Vz8Wp1Ls6Tj"))
	ids = append(ids, bought.SessionID)
	s.must(409, "POST", "/v1/sessions", purchaseBody(t, payments[0], bought.SessionID))
	s.must(200, "GET", target, nil, "Session-Id", bought.SessionID)
	s.must(200, "POST", "/v1/sessions/"+bought.SessionID+"/use", nil)
	s.must(200, "GET", "/v1/sessions/"+bought.SessionID, nil)
	s.must(402, "GET", target, nil, "Session-Id", "Zq7Xw9Kd3Mf5Rt8Yh2Bn")
	s.must(400, "GET", target, nil, "Session-Id", bought.SessionID, "X-Shelby-Micropayment", payments[0])
	payments = append(payments, c.next(3))
	s.must(200, "GET", target, nil, "X-Shelby-Micropayment", payments[1])
	s.must(409, "GET", target, nil, "X-Shelby-Micropayment", payments[1])
	s.must(400, "GET", target, nil, "X-Shelby-Micropayment", payments[1]+"AAAA")
	payments = append(payments, c.next(100000))
	s.must(402, "GET", target, nil, "X-Shelby-Micropayment", payments[2])
	s.must(404, "POST", "/v1/sessions/Jc4Gv6Ls1Pz0Ua3Ewx9T/use", nil)
	s.must(404, "POST", channels+"/Oi5Df8Hk2Nb7Qy4Wm6Sr/close", nil)
	s.must(200, "POST", channels+"/"+c.id+"/deposit", []byte(`{"amount":"5"}`))
	s.must(200, "GET", channels+"/"+c.id, nil)
	s.must(200, "POST", channels+"/"+c.id+"/close", nil)
	last := s.must(200, "GET", "/v1/info", nil).header.Get("X-Request-Id")
	s.stop()

	log := s.log.String()
	if !strings.Contains(log, last) {
		t.Fatalf("the log does not contain the last request:\n%s", tail(log))
	}
	for _, id := range append(ids, "Zq7Xw9Kd3Mf5Rt8Yh2Bn", "Jc4Gv6Ls1Pz0Ua3Ewx9T", "Oi5Df8Hk2Nb7Qy4Wm6Sr", "Kq4Vz8Wp1Ls6Tj") {
		if found := piece(log, id, 7); found != "" {
			t.Errorf("the log contains %q of %q:\n%s", found, id, tail(log))
		}
	}
	for _, payment := range payments {
		bytes := decoded(t, payment)
		proof := fmt.Sprintf("%x", bytes[271:]) // key and signature
		for _, form := range []string{payment, proof, strings.ToUpper(proof), fmt.Sprintf("%d", bytes[271:])} {
			if found := piece(log, form, 20); found != "" {
				t.Errorf("the log contains %q of a micropayment:\n%s", found, tail(log))
			}
		}
	}
}

// piece returns a substring with n characters from the secret that occurs in the text, or "".
func piece(text, secret string, n int) string {
	for i := 0; i+n <= len(secret); i++ {
		if strings.Contains(text, secret[i:i+n]) {
			return secret[i : i+n]
		}
	}
	return ""
}
