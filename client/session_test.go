package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"sluice/client"
	"sluice/httpapi"
	"sluice/internal/testenv"
	"sluice/micropay"
)

// newService returns a client for a new service over a transport with faults, and the service.
func newService(t *testing.T, o serviceOptions, f func(*http.Request) fault) (*client.Client, *service) {
	t.Helper()
	s, err := openService(o)
	testenv.OK(t, err)
	testenv.AtEnd(t, s.close)
	return newClient(t, &faulty{s, f}), s
}

func newClient(t *testing.T, transport http.RoundTripper) *client.Client {
	t.Helper()
	c, err := client.New("http://localhost:9090", client.Options{Transport: transport})
	testenv.OK(t, err)
	return c
}

// firstAttempts returns a fault for the first attempts of each request that changes something.
func firstAttempts(what fault, attempts int) func(*http.Request) fault {
	sent := map[string]int{}
	return func(r *http.Request) fault {
		if r.Method == http.MethodGet {
			return pass
		}
		key := r.Method + r.URL.Path + r.Header.Get("Idempotency-Key")
		sent[key]++
		if sent[key] <= attempts {
			return what
		}
		return pass
	}
}

// TestSessionsAndChannelsWithLostAnswers checks that requests are repeated after lost and cut
// responses, and have their effect once.
func TestSessionsAndChannelsWithLostAnswers(t *testing.T) {
	for name, what := range map[string]fault{"no fault": pass, "not delivered": lost, "no response": noAnswer, "cut body": cutBody} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := newService(t, serviceOptions{reads: httpapi.ReadsPublic}, firstAttempts(what, 2))
				ctx := t.Context()
				s, err := c.CreateSession(ctx, client.CreateSessionOptions{UserIdentity: "me"})
				if err != nil || s.UserIdentity != "me" || s.ChunksetsLeft != 1000 || s.Expires.IsZero() {
					t.Fatalf("session %+v, %v", s, err)
				}
				for want := int64(999); want > 995; want-- {
					left, err := c.Use(ctx, s.ID, client.UseOptions{})
					if err != nil || left != want {
						t.Fatalf("%d left, %v; want %d", left, err, want)
					}
				}
				if got, err := c.Session(ctx, s.ID); err != nil || got.ChunksetsLeft != 996 || got.ChunksetsTotal != 1000 {
					t.Errorf("session %+v, %v", got, err)
				}
				ch, err := c.OpenChannel(ctx, client.OpenChannelOptions{Deposit: 50, PaymentChannelID: 7})
				if err != nil || ch.PaymentChannelID != 7 || ch.Deposit != 50 || ch.State != "open" || !ch.SessionsKnown {
					t.Fatalf("channel %+v, %v", ch, err)
				}
				if got, err := c.Deposit(ctx, ch.ID, 5, client.DepositOptions{}); err != nil || got.Deposit != 55 {
					t.Errorf("channel %+v, %v", got, err)
				}
				if got, err := c.CloseChannel(ctx, ch.ID); err != nil || got.State != "closed" || got.Refund != 55 {
					t.Errorf("channel %+v, %v", got, err)
				}
				if got, err := c.Channel(ctx, ch.ID); err != nil || got.State != "closed" {
					t.Errorf("channel %+v, %v", got, err)
				}
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
		})
	}
}

// TestSessionErrors checks what is reported if a request is refused, or its outcome remains
// unknown.
func TestSessionErrors(t *testing.T) {
	type step = func(*http.Request) (*http.Response, error)
	signer, err := newSigner(1)
	testenv.OK(t, err)
	paid, err := signer.Sign(micropay.Payment{Amount: 1, Sequence: 1})
	testenv.OK(t, err)
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
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{t: t, steps: test.steps}
				c, err := client.New("http://localhost:9090", client.Options{Transport: s, MaxAttempts: 3})
				testenv.OK(t, err)
				_, err = c.CreateSession(t.Context(), client.CreateSessionOptions{Micropayment: paid})
				if !errors.Is(err, test.want) {
					t.Errorf("error %v, want %v", err, test.want)
				}
				if test.not != nil && errors.Is(err, test.not) {
					t.Errorf("error %v is also %v", err, test.not)
				}
				key := s.sent[0].Header.Get("Idempotency-Key")
				for _, r := range s.sent {
					if got := r.Header.Get("Idempotency-Key"); got != key || got == "" {
						t.Errorf("Idempotency-Key %q, then %q", key, got)
					}
				}
				if len(s.steps) != 0 {
					t.Errorf("%d responses were not requested", len(s.steps))
				}
			})
		})
	}
}

// TestUseReportsAnInvalidCount checks that a response without a valid count is an error.
func TestUseReportsAnInvalidCount(t *testing.T) {
	for _, left := range []string{"", "-1", "x"} {
		c := newClient(t, &script{t: t, steps: []func(*http.Request) (*http.Response, error){respond(200, map[string]string{"Chunksets-Left": left}, "")}})
		if _, err := c.Use(t.Context(), "S", client.UseOptions{}); err == nil {
			t.Errorf("Chunksets-Left %q was accepted", left)
		}
	}
}

// A local instance grants sessions. Use deducts one chunkset, once, however often its request has
// to be repeated.
func ExampleClient_CreateSession() {
	c, done := example(serviceOptions{reads: httpapi.ReadsPublic})
	defer done()
	ctx := context.Background()
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
	c, done := example(serviceOptions{reads: httpapi.ReadsPublic})
	defer done()
	ctx := context.Background()
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

func ExampleClient_Session() {
	c, done := example(serviceOptions{reads: httpapi.ReadsPublic})
	defer done()
	_, err := c.Session(context.Background(), "none")
	fmt.Println(errors.Is(err, client.ErrNotFound))
	// Output: true
}

// A channel is opened with a deposit, which may be increased, and closed: what was never paid is
// refunded.
func ExampleClient_OpenChannel() {
	c, done := example(serviceOptions{})
	defer done()
	ctx := context.Background()
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
	ctx := context.Background()
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

func ExampleClient_CloseChannel() {
	c, done := example(serviceOptions{})
	defer done()
	ctx := context.Background()
	ch, err := c.OpenChannel(ctx, client.OpenChannelOptions{Deposit: 500})
	check(err)
	ch, err = c.CloseChannel(ctx, ch.ID)
	check(err)
	fmt.Println(ch.State, ch.Refund)
	// Output: closed 500
}

func ExampleClient_Channel() {
	c, done := example(serviceOptions{})
	defer done()
	ctx := context.Background()
	opened, err := c.OpenChannel(ctx, client.OpenChannelOptions{Sender: "0x7", Deposit: 500})
	check(err)
	ch, err := c.Channel(ctx, opened.ID)
	check(err)
	fmt.Println(ch.Sender, ch.Deposit, ch.Accepted, len(ch.Sessions))
	// Output: 0x7 500 0 0
}
