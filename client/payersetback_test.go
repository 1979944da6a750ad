package client_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"sluice/client"
	"sluice/test/fault"
	"sluice/test/testenv"
	"sluice/wire"
)

// TestPayerOfAServiceThatWasSetBack buys from a service that has forgotten its payments, and
// perhaps the channel. The payer gets the chunksets again that it has paid for, in steps that the
// selling limit of a new channel permits, and nothing else is signed.
// Invariant 180.
func TestPayerOfAServiceThatWasSetBack(t *testing.T) {
	for name, known := range map[string]bool{"the channel is known": true, "the channel is lost": false} {
		runInBubble(t, name, func(t *testing.T) {
			s := newChainService(t)
			dir := testenv.MemoryDir(t)
			p := s.pay(dir)
			wantSession(p.Ensure(t.Context(), 100))(t, 100, "")
			checkStatus(t, p, 300, 300, false)
			s.setBack(known)
			testenv.OK(t, testenv.Error(s.pay(dir).Ensure(t.Context(), 90)))
			if got := status(t, p); got.Bought != 300 || got.Signed != 300 || s.total() < 90 {
				t.Errorf("%d chunksets for %+v", s.total(), got)
			}
			if got := testenv.Must(p.Ensure(t.Context(), 120))(t); got.ChunksetsLeft < 120 || status(t, p).Bought > 400 {
				t.Errorf("session %+v for %+v", got, status(t, p))
			}
			if s.accepted != status(t, p).Bought {
				t.Errorf("%d are accepted of %+v", s.accepted, status(t, p))
			}
		})
	}
}

// TestPendingPurchaseOfAServiceThatWasSetBack sets a service back while a purchase has no known
// outcome. The payer must find out, and not ask for ever.
func TestPendingPurchaseOfAServiceThatWasSetBack(t *testing.T) {
	for name, test := range map[string]struct {
		known     bool
		withdrawn uint64
		want      error
	}{
		"the channel is known":              {true, 0, nil},
		"the channel is lost":               {false, 0, nil},
		"the chain shows the amount bought": {true, 3, nil},
		"the chain shows the purchase":      {true, 6, client.ErrNotDelivered},
	} {
		runInBubble(t, name, func(t *testing.T) {
			s := newChainService(t)
			dir := testenv.MemoryDir(t)
			one := func(o *client.PayerOptions) { o.Chunksets = 1 }
			wantSession(s.pay(dir, one).Ensure(t.Context(), 1))(t, 1, "")
			away := fault.None
			s.fault = func(r *http.Request) fault.Kind {
				if away == fault.None && r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/sessions") {
					away = fault.Fail
					return fault.Lose
				}
				return away
			}
			testenv.Is(t, testenv.Error(s.pay(dir, one).Ensure(t.Context(), 2)), client.ErrOutcomeUnknown, "without an answer")
			s.fault = nil
			s.setBack(test.known)
			s.settled = test.withdrawn
			p := s.pay(dir, one)
			_, err := p.Ensure(t.Context(), 2)
			testenv.Is(t, err, test.want, "after the setback")
			if test.want != nil {
				testenv.Equal(t, testenv.Must(p.WriteOff(t.Context()))(t), 3, "the amount lost")
				_, err = p.Ensure(t.Context(), 2)
			}
			testenv.OK(t, err)
		})
	}
}

// TestWithdrawalsWithoutAProof pays over a channel from which, by the service's report, more was
// withdrawn than the payer knows. Nothing is signed above that, unless the caller has seen it.
// Invariant 180.
func TestWithdrawalsWithoutAProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChainService(t)
		s.settled = 890
		dir := testenv.MemoryDir(t)
		for _, seen := range []uint64{0, 889} {
			p := s.pay(dir, func(o *client.PayerOptions) { o.Withdrawn = seen })
			_, err := p.Ensure(t.Context(), 1)
			checkMessage(t, err, client.ErrUnproven, "890 were withdrawn", "PayerOptions.Withdrawn")
			testenv.Equal(t, len(s.sent), 0, "the number of payments sent")
		}
		testenv.Is(t, testenv.Error(s.pay(dir, func(o *client.PayerOptions) { o.Withdrawn, o.MaxSpend = 890, 892 }).Ensure(t.Context(), 1)), client.ErrBudget, "beyond MaxSpend")
		p := s.pay(dir, func(o *client.PayerOptions) { o.Withdrawn = 890 })
		wantSession(p.Ensure(t.Context(), 1))(t, 10, "")
		s.checkSent("/sessions", 920)
		wantSession(s.pay(dir).Ensure(t.Context(), 11))(t, 20, "")
		testenv.Equal(t, s.refuse, wire.Code(""), "no refusal")
	})
}
