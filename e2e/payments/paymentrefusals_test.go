package payments

import (
	"fmt"
	"testing"

	"sluice/e2e"
)

// ways returns the two ways to spend a micropayment, each for 2 chunksets.
func ways(s *e2e.Server, target string) map[string]func(micropayment string) e2e.Response {
	return map[string]func(string) e2e.Response{
		"buy":  func(m string) e2e.Response { return s.Do("POST", "/v1/sessions", e2e.PurchaseBody(s.T, m, "")) },
		"read": func(m string) e2e.Response { return s.Do("GET", target, nil, "X-Shelby-Micropayment", m) },
	}
}

// TestRefusedByTheChannel checks valid micropayments that their channel's state does not allow.
// They change nothing, and both ways to spend them report the same numbers.
// Invariant 22.
func TestRefusedByTheChannel(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--reads", "paid", "--chunkset-price", "10", "--unsettled-limit", "500"}})
	target := e2e.BlobTarget("0x1", "name")
	s.Must(204, "PUT", target, e2e.Content(1, e2e.ChunksetSize+1))
	for name, spend := range ways(s, target) {
		price := uint64(10) // a session's minimum price
		if name == "read" {
			price = 20
		}
		c := s.Open(s.Payer(1), 1000)
		pays := c.Next(35)
		s.Must(201, "POST", "/v1/sessions", e2e.PurchaseBody(t, pays, "")) // 5 of credit
		c.Settled()
		before := c.State().Money()
		for _, test := range []struct {
			sequence, amount uint64
			status           int
			code             string
			members          map[string]string
		}{
			{1, 100, 409, "micropayment_stale", map[string]string{"storedMicropayment": pays}},
			{2, 35, 409, "micropayment_stale", map[string]string{"storedMicropayment": pays}},
			{1, 2000, 409, "micropayment_stale", map[string]string{"storedMicropayment": pays}},
			{2, 1001, 402, "insufficient_funds", map[string]string{"required": "1001", "available": "1000"}},
			{2, 29 + price, 402, "insufficient_funds", map[string]string{"required": fmt.Sprint(price), "available": fmt.Sprint(price - 1)}},
			{2, 536, 402, "unsettled_limit", nil},
		} {
			r := spend(c.Payer.Sign(t, c.Number, test.sequence, test.amount).Base64())
			e2e.CheckProblem(t, r, test.status, test.code)
			for member, want := range test.members {
				if got := e2e.Member(t, r, member); got != want {
					t.Errorf("%s number %d of %d: %s is %s, want %s", name, test.sequence, test.amount, member, got, want)
				}
			}
		}
		if got := c.State(); got.Money() != before || len(got.Sessions) != 1 {
			t.Errorf("%s: refusals changed the channel from %q to %+v", name, before, got)
		}
	}
}
