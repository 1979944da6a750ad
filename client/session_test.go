package client_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"sluice/access"
	"sluice/client"
	"sluice/micropay"
	"sluice/test/fault"
	"sluice/test/testenv"
)

// firstAttempts returns a fault for the first attempts of each request that changes something.
func firstAttempts(label fault.Kind, attempts int) func(*http.Request) fault.Kind {
	sent := map[string]int{}
	return func(r *http.Request) fault.Kind {
		if r.Method == http.MethodGet {
			return fault.None
		}
		key := r.Method + r.URL.Path + r.Header.Get("Idempotency-Key")
		sent[key]++
		if sent[key] <= attempts {
			return label
		}
		return fault.None
	}
}

// TestSessionsAndChannelsWithLostAnswers checks that requests are repeated after lost and cut
// responses, and have their effect once.
func TestSessionsAndChannelsWithLostAnswers(t *testing.T) {
	for name, failure := range map[string]fault.Kind{"no fault": fault.None, "not delivered": fault.Fail, "no response": fault.Lose, "cut body": fault.Tear} {
		runInBubble(t, name, func(t *testing.T) {
			c := newClient(t, &faulty{newService(t, serviceOptions{reads: access.ReadsPublic}), firstAttempts(failure, 2)})
			ctx := t.Context()
			s, err := c.CreateSession(ctx, client.CreateSessionOptions{UserIdentity: "me"})
			if err != nil || s.UserIdentity != "me" || s.ChunksetsLeft != 1000 || s.Expires.IsZero() {
				t.Fatalf("session %+v, %v", s, err)
			}
			for want := int64(999); want > 995; want-- {
				testenv.Equal(t, testenv.Must(c.Use(ctx, s.ID, client.UseOptions{}))(t), want, "the chunksets left")
			}
			s = wantSession(c.Session(ctx, s.ID))(t, 996, s.ID)
			testenv.Equal(t, s.ChunksetsTotal, 1000, "all chunksets")
			ch, err := c.OpenChannel(ctx, client.OpenChannelOptions{Deposit: 50, PaymentChannelID: 7})
			if err != nil || ch.PaymentChannelID != 7 || ch.Deposit != 50 || ch.State != "open" || !ch.SessionsKnown {
				t.Fatalf("channel %+v, %v", ch, err)
			}
			testenv.Equal(t, testenv.Must(c.Deposit(ctx, ch.ID, 5, client.DepositOptions{}))(t).Deposit, 55, "the deposit")
			if got, err := c.CloseChannel(ctx, ch.ID); err != nil || got.State != "closed" || got.Refund != 55 {
				t.Errorf("channel %+v, %v", got, err)
			}
			testenv.Equal(t, testenv.Must(c.Channel(ctx, ch.ID))(t).State, "closed", "the state")
			testenv.Is(t, testenv.Error(c.OpenChannel(ctx, client.OpenChannelOptions{PaymentChannelID: 7})), client.ErrConflict, "second channel of the same number")
			testenv.Is(t, testenv.Error(c.Deposit(ctx, ch.ID, 5, client.DepositOptions{})), client.ErrGone, "deposit into a closed channel")
			for _, id := range []string{"none", "a?b c"} {
				testenv.Is(t, testenv.Error(c.Session(ctx, id)), client.ErrNotFound, "session %q", id)
				testenv.Is(t, testenv.Error(c.Channel(ctx, id)), client.ErrNotFound, "channel %q", id)
			}
			for _, id := range []string{"", ".", ".."} {
				testenv.Is(t, testenv.Error(c.Use(ctx, id, client.UseOptions{})), client.ErrInvalid, "use of session %q", id)
				testenv.Is(t, testenv.Error(c.CloseChannel(ctx, id)), client.ErrInvalid, "close of channel %q", id)
			}
		})
	}
}

// TestSessionErrors checks the errors if a request is refused, or its outcome remains unknown.
func TestSessionErrors(t *testing.T) {
	signer := testenv.Must(newSigner(1))(t)
	paid := testenv.Must(signer.Sign(micropay.Payment{Amount: 1, Sequence: 1}))(t)
	session := respond(201, nil, `{"sessionId":"S","chunksetsLeft":1,"chunksetsTotal":1}`)
	refused := problem(402, "micropayment_refused", `,"reason":"expired"`)
	for name, test := range map[string]struct {
		steps     []step
		want, not error
	}{
		"success":                       {steps: []step{session}},
		"unknown, then success":         {steps: []step{problem(503, "outcome_unknown", `,"retryable":true`), session}},
		"malformed":                     {steps: []step{respond(201, nil, `{"sessionId":1}`)}, want: client.ErrOutcomeUnknown},
		"cut until the end":             {steps: []step{fail(errCut), fail(errCut), fail(errCut)}, want: client.ErrOutcomeUnknown},
		"refused":                       {steps: []step{refused}, want: client.ErrPaymentRequired, not: client.ErrOutcomeUnknown},
		"refused after a cut":           {steps: []step{fail(errCut), refused}, want: client.ErrOutcomeUnknown},
		"stale after a cut":             {steps: []step{fail(errCut), problem(409, "micropayment_stale", "")}, want: client.ErrOutcomeUnknown},
		"refused after no connection":   {steps: []step{fail(errDial), refused}, want: client.ErrPaymentRequired, not: client.ErrOutcomeUnknown},
		"insufficient funds, after cut": {steps: []step{fail(errCut), problem(402, "insufficient_funds", "")}, want: client.ErrPaymentRequired, not: client.ErrOutcomeUnknown},
	} {
		runInBubble(t, name, func(t *testing.T) {
			s, c := newScript(t, 3, test.steps...)
			_, err := c.CreateSession(t.Context(), client.CreateSessionOptions{Micropayment: paid})
			checkError(t, err, test.want, test.not)
			key := s.sent[0].Header.Get("Idempotency-Key")
			for _, r := range s.sent {
				if got := r.Header.Get("Idempotency-Key"); got != key || got == "" {
					t.Errorf("Idempotency-Key %q, then %q", key, got)
				}
			}
		})
	}
}

// A local instance grants sessions. Use deducts one chunkset, once, however often its request has
// to be repeated.
func ExampleClient_CreateSession() {
	c, done := example(serviceOptions{reads: access.ReadsPublic})
	defer done()
	s, err := c.CreateSession(ctx, client.CreateSessionOptions{UserIdentity: "alice"})
	check(err)
	fmt.Println(s.UserIdentity, s.ChunksetsLeft)
	left, err := c.Use(ctx, s.ID, client.UseOptions{})
	check(err)
	fmt.Println(left)
	// Output:
	// alice 1000
	// 999
}

func ExampleClient_Use() {
	c, done := example(serviceOptions{reads: access.ReadsPublic})
	defer done()
	s, err := c.CreateSession(ctx, client.CreateSessionOptions{})
	check(err)
	// The key is kept by the caller: the same use can be sent again after a restart.
	for range 2 {
		left, err := c.Use(ctx, s.ID, client.UseOptions{IdempotencyKey: "invoice-17"})
		check(err)
		fmt.Println(left)
	}
	// Output:
	// 999
	// 999
}

// A channel is opened with a deposit, which may be increased, and closed: the rest is refunded.
func ExampleClient_OpenChannel() {
	c, done := example(serviceOptions{})
	defer done()
	ch, err := c.OpenChannel(ctx, client.OpenChannelOptions{
		Sender:  "0x7",
		Deposit: 500,
		Expires: time.Now().Add(24 * time.Hour),
	})
	check(err)
	fmt.Println(ch.State, ch.Deposit)
	ch, err = c.Deposit(ctx, ch.ID, 100, client.DepositOptions{})
	check(err)
	fmt.Println(ch.State, ch.Deposit)
	ch, err = c.CloseChannel(ctx, ch.ID)
	check(err)
	fmt.Println(ch.State, ch.Refund)
	// Output:
	// open 500
	// open 600
	// closed 600
}

func ExampleClient_Deposit() {
	c, done := example(serviceOptions{})
	defer done()
	ch, err := c.OpenChannel(ctx, client.OpenChannelOptions{Deposit: 500})
	check(err)
	// The key is kept by the caller: after a crash the same deposit can be sent again.
	for range 2 {
		ch, err = c.Deposit(ctx, ch.ID, 100, client.DepositOptions{IdempotencyKey: "may"})
		check(err)
		fmt.Println(ch.Deposit)
	}
	// Output:
	// 600
	// 600
}
