package client_test

import (
	"context"
	"errors"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/client"
	"sluice/micropay"
	"sluice/test/fault"
	"sluice/test/testenv"
	"sluice/wire"
)

// amounts returns the amounts in the micropayments that were sent to a path.
func (s *chainService) amounts(path string) (list []uint64) {
	for _, m := range s.sent {
		if strings.HasSuffix(m.path, path) {
			list = append(list, m.amount)
		}
	}
	return list
}

// checkSent fails the test unless micropayments with these amounts were sent to a path.
func (s *chainService) checkSent(path string, amounts ...uint64) {
	s.t.Helper()
	if !slices.Equal(s.amounts(path), amounts) {
		s.t.Errorf("sent %v, want %v to %s", s.sent, amounts, path)
	}
}

// TestPayerBuysWithinTheSellingLimit buys more than the service sells at once: in purchases that
// the limit permits, each after the one before was collected, with the gas that the service asks,
// and without a refusal.
// Invariant 155.
func TestPayerBuysWithinTheSellingLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChainService(t)
		waits := 0
		p := s.pay(testenv.MemoryDir(t), func(o *client.PayerOptions) { o.OnWait = func(client.Channel) { waits++ } })
		wantSession(p.Ensure(t.Context(), 1))(t, 3, "") // 10 usually
		wantSession(p.Ensure(t.Context(), 20))(t, 20, "")
		testenv.Equal(t, s.total(), 20, "the chunksets sold")
		testenv.Equal(t, s.accepted, 60, "the accepted amount")
		testenv.Equal(t, waits, 2, "the waits")
		s.checkSent("/sessions", 9, 27, 60)
		if s.requests > 40 {
			t.Errorf("%d requests", s.requests)
		}
		if got := status(t, p); got.Spent != 60 || got.Added != 60 || got.Bought != 60 || got.PaymentChannelID != 7 {
			t.Errorf("status %+v", got)
		}
	})
}

// TestPayerWaitsWithinItsBounds checks that a purchase which the selling limit does not permit ends
// with an error: after MaxWait, with its context, or at once if waiting changes nothing. Chunksets
// that were bought before remain.
// Invariant 155.
func TestPayerWaitsWithinItsBounds(t *testing.T) {
	for name, test := range map[string]struct {
		maxWait time.Duration
		ctx     time.Duration // 0: no deadline
		set     func(*chainService)
		least   time.Duration
		most    time.Duration
		left    int64
	}{
		"default":               {0, 0, func(s *chainService) { s.away = true }, time.Minute, 2 * time.Minute, 3},
		"none":                  {-1, 0, func(s *chainService) { s.away = true }, 0, 0, 3},
		"context":               {time.Hour, 30 * time.Second, func(s *chainService) { s.away = true }, 0, 30 * time.Second, 3},
		"price above the limit": {0, 0, func(s *chainService) { s.start = 2 }, 0, 0, 0},
		"stopped":               {0, 0, func(s *chainService) { s.stopped = "the channel does not exist on the chain" }, 0, 0, 0},
		"refused":               {0, 0, func(s *chainService) { s.refuse = wire.CodeChannelStopped }, 0, 0, 0},
	} {
		runInBubble(t, name, func(t *testing.T) {
			s := newChainService(t)
			test.set(s)
			p := s.pay(testenv.MemoryDir(t), func(o *client.PayerOptions) { o.MaxWait = test.maxWait })
			ctx := t.Context()
			if test.ctx > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, test.ctx)
				defer cancel()
			}
			began := time.Now()
			_, err := p.Ensure(ctx, 20)
			if took := time.Since(began); !errors.Is(err, client.ErrPaymentRequired) || took < test.least || took > test.most {
				t.Errorf("error %v after %v", err, took)
			}
			if s.total() != test.left || s.requests > 120 || len(s.sent) > 2 {
				t.Errorf("%d chunksets were sold, %d requests, sent %v", s.total(), s.requests, s.sent)
			}
		})
	}
}

// TestPayerShrinksToWhatARefusalPermits checks that a purchase is made smaller if the service
// refuses it for a lower limit than the channel has shown, and that the number of such refusals is
// bounded.
// Invariant 155.
func TestPayerShrinksToWhatARefusalPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChainService(t)
		s.start = 600
		c := newClient(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/v1/sessions" {
				s.start = 20 // as with another form of payment
				defer func() { s.start = 600 }()
			}
			return s.RoundTrip(r)
		}))
		p := newPayer(t, c, testenv.MemoryDir(t), overChannel7)
		wantSession(p.Ensure(t.Context(), 1))(t, 6, "")
		s.checkSent("/sessions", 30, 18)
		checkStatus(t, p, 30, 18, false)
	})
}

// TestPayerRenewsWhatHasExpired takes the chain away until a channel's payments have expired, at
// the selling limit. When it is back, the payer renews the accepted amount by itself, after it
// wrote it to its state file, and buys again.
// Invariant 155.
func TestPayerRenewsWhatHasExpired(t *testing.T) {
	for name, test := range map[string]struct {
		stopped string
		fault   fault.Kind // of the first six renewals
	}{
		"at the limit": {"", fault.None},
		"stopped":      {"a payment of 9 units has expired before it was collected: renew it", fault.None},
		"lost":         {"", fault.Fail},
		"no answer":    {"", fault.Lose},
	} {
		runInBubble(t, name, func(t *testing.T) {
			s := newChainService(t)
			s.away = true
			dir, renewals := testenv.MemoryDir(t), 0
			s.fault = func(r *http.Request) fault.Kind {
				if !strings.HasSuffix(r.URL.Path, "/renew") {
					return fault.None
				}
				if renewals++; renewals > 6 {
					return fault.None
				}
				return test.fault
			}
			s.before = func(path string, m *micropay.Micropayment) {
				text, err := os.ReadFile(filepath.Join(dir, "payer.json"))
				if err != nil || !strings.Contains(string(text), m.Base64()) {
					t.Errorf("a micropayment is sent to %s, and the state file is %s, %v", path, text, err)
				}
			}
			testenv.OK(t, testenv.Error(s.pay(dir).Ensure(t.Context(), 3)))
			time.Sleep(5 * time.Minute)
			if s.expired() != 9 {
				t.Fatalf("%d have expired", s.expired())
			}
			s.away, s.stopped = false, test.stopped
			var session client.Session
			var err error
			for range 3 {
				if session, err = s.pay(dir).Ensure(t.Context(), 6); err == nil {
					break
				}
				if !errors.Is(err, client.ErrOutcomeUnknown) {
					t.Fatal(err)
				}
			}
			if err != nil || session.ChunksetsLeft != 9 || s.accepted != 27 {
				t.Fatalf("session %+v, %v", session, err)
			}
			if renewed := slices.Compact(s.amounts("/renew")); !slices.Equal(renewed, []uint64{9}) {
				t.Errorf("the amounts of the renewals are %v", renewed)
			}
			testenv.Equal(t, len(s.sequences("/renew")), 1, "the sequence numbers of the renewals")
			checkStatus(t, s.pay(dir), 27, 27, false)
			testenv.Equal(t, status(t, s.pay(dir)).Spent, 27, "the amount spent")
		})
	}
}

// sequences returns the different sequence numbers in the micropayments that were sent to a path.
func (s *chainService) sequences(path string) (list []uint64) {
	for _, m := range s.sent {
		if strings.HasSuffix(m.path, path) && !slices.Contains(list, m.sequence) {
			list = append(list, m.sequence)
		}
	}
	return list
}

// TestPayerRenew renews by Payer.Renew: once, however often it is called, after another state has
// signed higher numbers, and when there is nothing to renew.
// Invariant 155.
func TestPayerRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChainService(t)
		s.away = true
		dir := testenv.MemoryDir(t)
		p := s.pay(dir)
		testenv.Is(t, testenv.Error(p.Renew(t.Context())), client.ErrNotFound, "without a channel")
		testenv.OK(t, testenv.Error(p.Ensure(t.Context(), 3)))
		if ch, err := p.Renew(t.Context()); err != nil || ch.Expired != 0 || ch.Accepted != 9 {
			t.Errorf("before it expires: %+v, %v", ch, err)
		}
		old := testenv.Must(os.ReadFile(filepath.Join(dir, "payer.json")))(t)
		for range 3 {
			time.Sleep(2 * time.Minute)
			testenv.Equal(t, testenv.Must(p.Renew(t.Context()))(t).Expired, 0, "the expired amount")
		}
		testenv.OK(t, os.WriteFile(filepath.Join(dir, "payer.json"), old, 0o600))
		time.Sleep(2 * time.Minute)
		p = s.pay(dir)
		for range 2 {
			testenv.Equal(t, testenv.Must(p.Renew(t.Context()))(t).Expired, 0, "the expired amount with an old state")
		}
		s.checkSent("/renew", 9, 9, 9, 9, 9) // the one that was not known, and another
		testenv.Equal(t, len(s.sequences("/renew")), 4, "the sequence numbers of the renewals")
		testenv.Equal(t, s.accepted, 9, "the accepted amount")
		checkStatus(t, p, 9, 9, false)
	})
}

// TestPayerOpensOnTheChainFirst checks that a payer never invents a channel's number if the service
// collects on a chain, and sends neither a deposit nor an expiry.
// Invariant 156.
func TestPayerOpensOnTheChainFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChainService(t)
		none := func(o *client.PayerOptions) { o.PaymentChannelID = 0 }
		_, err := s.pay(testenv.MemoryDir(t), none).Ensure(t.Context(), 1)
		checkMessage(t, err, client.ErrNoChannel, "receiver 0xa and the asset 0xb")
		testenv.Equal(t, s.requests, 1, "the requests, which are for the terms,")
		deposit := func(o *client.PayerOptions) { o.Deposit = 5 }
		testenv.Is(t, testenv.Error(s.pay(testenv.MemoryDir(t), deposit).Ensure(t.Context(), 1)), client.ErrInvalid, "with a deposit")
		dir := testenv.MemoryDir(t)
		testenv.Is(t, testenv.Error(s.pay(dir, func(o *client.PayerOptions) { o.PaymentChannelID = 8 }).Ensure(t.Context(), 1)), client.ErrNotFound, "a channel that does not exist")
		testenv.OK(t, testenv.Error(s.pay(dir).Ensure(t.Context(), 1)))
		_, err = s.pay(testenv.MemoryDir(t)).Ensure(t.Context(), 1) // over a channel that is known
		checkMessage(t, err, client.ErrConflict, "PayerOptions.ChannelID")
		other := func(o *client.PayerOptions) { o.ChannelID, o.PaymentChannelID = "C", 8 }
		testenv.Is(t, testenv.Error(s.pay(testenv.MemoryDir(t), other).Ensure(t.Context(), 1)), client.ErrTermsChanged, "the id of another number")
		s.deposit = 5 // as it was read last; a payment above it makes the service read it again
		if _, err := s.pay(dir).Ensure(t.Context(), 30); errors.Is(err, client.ErrPaymentRequired) && strings.Contains(err.Error(), "add to it with Deposit") {
			t.Errorf("a deposit that may have grown: %v", err)
		}
	})
}

// TestPayerSaysThatAnotherChannelIsNamed checks that options which name another channel than the
// state file are an error, even if nothing must be bought, and that the payer uses the named
// channel after CloseChannel.
// Invariant 156.
func TestPayerSaysThatAnotherChannelIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, newService(t, serviceOptions{price: 3}))
		dir := testenv.MemoryDir(t)
		first := newPayer(t, c, dir)
		testenv.OK(t, testenv.Error(first.Ensure(t.Context(), 5)))
		ch := testenv.Must(c.OpenChannel(t.Context(), client.OpenChannelOptions{Sender: first.Address()}))(t)
		for label, name := range map[string]func(*client.PayerOptions){
			"id": func(o *client.PayerOptions) { o.ChannelID = ch.ID }, "number": func(o *client.PayerOptions) { o.PaymentChannelID = ch.PaymentChannelID },
		} {
			testenv.Is(t, testenv.Error(newPayer(t, c, dir, name).Ensure(t.Context(), 1)), client.ErrOtherChannel, "another %s", label)
		}
		p := newPayer(t, c, dir, func(o *client.PayerOptions) { o.ChannelID = ch.ID })
		testenv.OK(t, testenv.Error(p.CloseChannel(t.Context())))
		if _, err := p.Buy(t.Context(), 5); err != nil || status(t, p).ChannelID != ch.ID {
			t.Errorf("status %+v, %v", status(t, p), err)
		}
	})
}

// TestPayerDoesNotCountWhatWasRefused checks that a refused amount counts as spent until a minute
// after it has expired, even after the channel was closed, and that MaxSpend permits as much again
// then.
// Invariant 157.
func TestPayerDoesNotCountWhatWasRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, serviceOptions{price: 3})
		refuse := false
		c := newClient(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			if refuse && r.Method == "POST" && r.URL.Path == "/v1/sessions" {
				return problem(402, "insufficient_funds", "")(r)
			}
			return s.RoundTrip(r)
		}))
		p := newPayer(t, c, testenv.MemoryDir(t), func(o *client.PayerOptions) { o.MaxSpend = 90 })
		spent := func(label string, spent, added uint64) {
			t.Helper()
			if got := status(t, p); got.Spent != spent || got.Added != added {
				t.Errorf("%s: status %+v, want %d spent, %d added", label, got, spent, added)
			}
		}
		testenv.OK(t, testenv.Error(p.Buy(t.Context(), 10)))
		refuse = true
		for range 3 {
			testenv.Is(t, testenv.Error(p.Buy(t.Context(), 20)), client.ErrPaymentRequired, "Buy")
		}
		spent("refused", 90, 90)
		refuse = false
		testenv.OK(t, testenv.Error(p.CloseChannel(t.Context())))
		spent("closed", 90, 30)
		testenv.Is(t, testenv.Error(p.Buy(t.Context(), 10)), client.ErrBudget, "while it can be collected")
		time.Sleep(119 * time.Second)
		spent("a minute after it has expired", 90, 30)
		time.Sleep(2 * time.Second)
		spent("later", 30, 30)
		testenv.Check(t, testenv.Error(p.Buy(t.Context(), 20)))
		spent("in the end", 90, 90)
		testenv.Is(t, testenv.Error(p.Buy(t.Context(), 10)), client.ErrBudget, "above the budget")
	})
}

// TestPayerRenewsOnlyWhatWasDelivered checks that a renewal is for the amount bought after a higher
// amount was signed and refused, and that a service which asks for one without a payment gets none.
// Invariant 143.
func TestPayerRenewsOnlyWhatWasDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChainService(t)
		s.away = true
		p := s.pay(testenv.MemoryDir(t), func(o *client.PayerOptions) { o.MaxWait = -1 })
		s.refuse = wire.CodeInsufficientFunds
		testenv.Is(t, testenv.Error(p.Ensure(t.Context(), 3)), client.ErrPaymentRequired, "Ensure")
		s.refuse, s.price = "", 2
		testenv.OK(t, testenv.Error(p.Ensure(t.Context(), 3))) // for 10, and all are possible
		s.start, s.refuse = 1000, wire.CodeInsufficientFunds
		testenv.Is(t, testenv.Error(p.Buy(t.Context(), 20)), client.ErrPaymentRequired, "Buy")
		testenv.Equal(t, status(t, p).Signed, 50, "the signed amount")
		time.Sleep(5 * time.Minute)
		testenv.Equal(t, testenv.Must(p.Renew(t.Context()))(t).Expired, 0, "the expired amount")
		s.checkSent("/renew", 10)
	})
}

// TestPayerCountsCredit checks that a purchase's credit counts for the next one: a service that
// charges more than its published price takes less than one MaxPrice with it, however many
// purchases are made.
// Invariant 143.
func TestPayerCountsCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChainService(t)
		s.ceiling = 3
		c := newClient(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			s.price = 1
			if r.URL.Path == "/v1/sessions" {
				s.price = 3
			}
			return s.RoundTrip(r)
		}))
		p := newPayer(t, c, testenv.MemoryDir(t), overChannel7, func(o *client.PayerOptions) { o.MaxPrice = 2 })
		wantSession(p.Ensure(t.Context(), 1))(t, 1, "")
		testenv.Equal(t, s.accepted, 3, "the accepted amount")
		testenv.Is(t, testenv.Error(p.Ensure(t.Context(), 2)), client.ErrNotDelivered, "after %d for %d chunksets", s.accepted, s.total())
	})
}

// TestPayerBuysAnotherSessionNearTheEnd checks that nothing is added to a session in the last tenth
// of its life, that its rest is used first, and that the next session has the needed chunksets.
// Invariant 158.
func TestPayerBuysAnotherSessionNearTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, newService(t, serviceOptions{price: 3}))
		dir := testenv.MemoryDir(t)
		p := newPayer(t, c, dir)
		old := wantSession(p.Ensure(t.Context(), 4))(t, 10, "") // it lives for an hour
		time.Sleep(50 * time.Minute)
		wantSession(p.Buy(t.Context(), 10))(t, 20, old.ID)
		time.Sleep(5 * time.Minute)
		bought := wantSession(p.Buy(t.Context(), 10))(t, 10, "")
		p = newPayer(t, c, dir)
		wantSession(p.Ensure(t.Context(), 20))(t, 20, old.ID) // its rest
		wantSession(p.Ensure(t.Context(), 30))(t, 30, bought.ID)
		time.Sleep(55 * time.Minute)
		last := wantSession(p.Ensure(t.Context(), 31))(t, 31, "")
		if bought.ID == old.ID || last.ID == bought.ID {
			t.Errorf("the sessions are %s, %s and %s", old.ID, bought.ID, last.ID)
		}
	})
}

// TestPaidReadsUseASessionThatEndsFirst reads with the former session's rest after Buy bought
// another.
// Invariant 158.
func TestPaidReadsUseASessionThatEndsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, newService(t, serviceOptions{price: 3}))
		paidBlob(t, c) // of 3 chunksets
		p := newPayer(t, c, testenv.MemoryDir(t))
		old := testenv.Must(p.Buy(t.Context(), 10))(t)
		time.Sleep(55 * time.Minute)
		bought := testenv.Must(p.Buy(t.Context(), 10))(t)
		payment := &client.Payment{Payer: p}
		for range 4 {
			testenv.OK(t, testenv.Error(readAll(t, c, client.GetOptions{Payment: payment})))
		}
		for id, want := range map[string]int64{old.ID: 1, bought.ID: 7} {
			testenv.Equal(t, testenv.Must(c.Session(t.Context(), id))(t).ChunksetsLeft, want, "the chunksets left")
		}
	})
}

// TestChannelOfAChain checks a channel's members when the service collects on a chain, and
// Reconcile.
func TestChannelOfAChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChainService(t)
		s.away = true
		p := s.pay(testenv.MemoryDir(t))
		testenv.OK(t, testenv.Error(p.Ensure(t.Context(), 3)))
		time.Sleep(2 * time.Minute)
		s.stopped = "it has expired"
		c := s.client()
		ch, err := c.Channel(t.Context(), "C")
		if err != nil || ch.SellingLimit != 10 || ch.Expired != 9 || ch.State != "stopped" || ch.Stopped != "it has expired" || ch.Elsewhere != 0 {
			t.Errorf("channel %+v, %v", ch, err)
		}
		for _, write := range []bool{false, true} {
			r, err := c.Reconcile(t.Context(), "C", write)
			want := client.ChainState{Deposit: 10_000, Withdrawn: 8, NextSequence: 3, Expires: time.Unix(1000, 0).UTC()}
			if err != nil || *r.Chain != want || r.Channel.Settled != 0 || (r.After != nil) != write || write && r.After.Settled != 8 {
				t.Errorf("reconciled %+v, %v", r, err)
			}
		}
		testenv.Is(t, testenv.Error(c.Reconcile(t.Context(), "", false)), client.ErrInvalid, "without an id")
		local := newClient(t, newService(t, serviceOptions{}))
		if ch, err := local.OpenChannel(t.Context(), client.OpenChannelOptions{}); err != nil || ch.SellingLimit == 0 || ch.SellingLimit > math.MaxInt64 {
			t.Errorf("channel %+v, %v", ch, err)
		}
	})
}
