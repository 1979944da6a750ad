package payments

import (
	"fmt"
	"slices"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestPaymentRace sends one micropayment 200 times concurrently, to buy and to read.
// Invariant 19.
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

// race sends a request many times concurrently: one response must have the status, and the rest
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

// TestLostResponses checks that a payer who did not receive the response finds the chunksets that
// the payment has bought, by the Idempotency-Key and in the channel's state.
// Invariant 24.
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
			t.Errorf("round %d: the stored micropayment differs", round)
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
