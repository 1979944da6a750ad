package paychan_test

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"sluice/ledger"
	"sluice/paychan"
	"sluice/test/testenv"
)

// TestConcurrentReplays uses one micropayment 1,000 times at once, for sessions and reads, over two
// handles. One use succeeds, and only that one has an effect.
// Invariant 19.
func TestConcurrentReplays(t *testing.T) {
	const replays, amount = 1_000, 30
	first := newShop(t)
	handles := []*shop{first, first.another(t)}
	payer := newPayer(t, 1)
	c := first.open("", 1)
	text := payer.sign(t, promise(first.clock.Now(), 1, 1, amount))
	bought, read := make([]ledger.Session, replays), make([]ledger.Channel, replays)
	errs := make([]error, replays)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range replays {
		s := handles[i%2]
		wg.Go(func() {
			<-start
			p, err := s.Verify(t.Context(), text, nil)
			switch {
			case err != nil:
				errs[i] = err
			case i/2%2 == 0:
				bought[i], errs[i] = s.Buy(t.Context(), paychan.BuyOptions{Payment: p}, nil)
			default:
				read[i], errs[i] = s.PayRead(t.Context(), p, 4, "")
			}
		})
	}
	close(start)
	wg.Wait()
	proof := first.paid(payer, 1, 1, amount).Proof // signing returns the same bytes each time
	winner := -1
	for i, err := range errs {
		var stale *ledger.StaleError
		switch {
		case err == nil && winner >= 0:
			t.Errorf("both %d and %d succeeded", winner, i)
		case err == nil:
			winner = i
		case !errors.As(err, &stale) || !bytes.Equal(stale.Stored, proof):
			t.Errorf("replay %d: %v", i, err)
		}
	}
	if winner < 0 {
		t.Fatal("none succeeded")
	}
	got, sessions := first.channel(c.ID), first.sessions(c.ID)
	if got.Accepted != amount || got.Sequence != 1 || !bytes.Equal(got.Proof, proof) || got.Sender != payer.address() {
		t.Errorf("%+v", got)
	}
	if winner/2%2 == 0 {
		if got.Credit != 0 || len(sessions) != 1 || sessions[0] != bought[winner] || sessions[0].Left != 10 {
			t.Errorf("bought %+v: credit %d, sessions %+v", bought[winner], got.Credit, sessions)
		}
	} else if got.Credit != 18 || len(sessions) != 0 || read[winner].Credit != 18 {
		t.Errorf("read %+v: credit %d, sessions %+v", read[winner], got.Credit, sessions)
	}
	if pending := first.pending(); len(pending) != 1 || pending[0].Amount != amount {
		t.Errorf("to be settled: %+v", pending)
	}
	first.audit()
}

// TestConcurrentReturns checks that one return, repeated concurrently, counts once.
// Invariant 25.
func TestConcurrentReturns(t *testing.T) {
	first := newShop(t)
	handles := []*shop{first, first.another(t)}
	payer := newPayer(t, 1)
	c := first.open(payer.address(), 1)
	testenv.OK(t, testenv.Error(first.PayRead(t.Context(), first.paid(payer, 1, 1, 300), 100, "")))
	errs := make([]error, 100)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { _, errs[i] = handles[i%2].Return(t.Context(), c.ID, 7, handles[i%2].Price(), "r") })
	}
	wg.Wait()
	testenv.Check(t, errors.Join(errs...))
	testenv.Equal(t, first.channel(c.ID).Credit, 21, "the credit")
	first.audit()
}
