package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/client"
	"sluice/test/fault"
	"sluice/test/testenv"
)

// payerOptions returns options with which a payer of account 1 buys 10 chunksets at a time.
func payerOptions(t testing.TB, dir string, change ...func(*client.PayerOptions)) client.PayerOptions {
	t.Helper()
	signer := testenv.Must(newSigner(1))(t)
	o := client.PayerOptions{Signer: signer, StateFile: filepath.Join(dir, "payer.json"), MaxPrice: 5, MaxSpend: 10_000, MaxPurchase: 1000, Chunksets: 10, Deposit: 100_000}
	for _, f := range change {
		f(&o)
	}
	return o
}

func newPayer(t testing.TB, c *client.Client, dir string, change ...func(*client.PayerOptions)) *client.Payer {
	t.Helper()
	return testenv.Must(c.NewPayer(t.Context(), payerOptions(t, dir, change...)))(t)
}

func status(t testing.TB, p *client.Payer) client.PayerStatus {
	t.Helper()
	return testenv.Must(p.Status(t.Context()))(t)
}

// checkStatus checks the amounts that a payer has signed and bought over its channel.
func checkStatus(t testing.TB, p *client.Payer, signed, bought uint64, pending bool) {
	t.Helper()
	if got := status(t, p); got.Signed != signed || got.Bought != bought || got.Pending != pending {
		t.Errorf("status %+v, want %d signed, %d bought, pending %v", got, signed, bought, pending)
	}
}

// wantSession takes a call's results. The function that it returns ends the test unless the call
// returned a session with so many chunksets left and this id. "": any.
func wantSession(s client.Session, err error) func(t testing.TB, left int64, id string) client.Session {
	return func(t testing.TB, left int64, id string) client.Session {
		t.Helper()
		if err != nil || s.ChunksetsLeft != left || id != "" && s.ID != id {
			t.Fatalf("session %+v, %v, want %d left in %q", s, err, left, id)
		}
		return s
	}
}

// checkAccounts checks that the service has accepted exactly want, that the payer knows it, and
// that the session has total chunksets.
func checkAccounts(t testing.TB, c *client.Client, p *client.Payer, want uint64, total int64) {
	t.Helper()
	got := status(t, p)
	ch := testenv.Must(c.Channel(t.Context(), got.ChannelID))(t)
	s := testenv.Must(c.Session(t.Context(), got.SessionID))(t)
	if ch.Accepted != want || ch.Credit != 0 || got.Bought != want || got.Signed != want || got.Pending || s.ChunksetsTotal != total || len(ch.Sessions) != 1 {
		t.Errorf("accepted %d, credit %d, %d chunksets in all, %d sessions, %+v; want %d for %d chunksets in one session",
			ch.Accepted, ch.Credit, s.ChunksetsTotal, len(ch.Sessions), got, want, total)
	}
}

// TestPayerBuysAndRefills checks a purchase, that nothing is bought while the session has enough,
// and that chunksets are added to the session.
func TestPayerBuysAndRefills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, newService(t, serviceOptions{price: 3}))
		dir := testenv.MemoryDir(t)
		p := newPayer(t, c, dir)
		ctx := t.Context()
		s := wantSession(p.Ensure(ctx, 4))(t, 10, "")
		checkAccounts(t, c, p, 30, 10)
		for left := int64(9); left >= 3; left-- {
			testenv.Equal(t, testenv.Must(c.Use(ctx, s.ID, client.UseOptions{}))(t), left, "the chunksets left")
		}
		wantSession(p.Ensure(ctx, 3))(t, 3, s.ID)
		checkAccounts(t, c, p, 30, 10)
		wantSession(p.Ensure(ctx, 4))(t, 13, s.ID)
		checkAccounts(t, c, p, 60, 20)
		// Another process with the same file needs more than a purchase usually has.
		wantSession(newPayer(t, c, dir).Ensure(ctx, 50))(t, 50, s.ID)
		checkAccounts(t, c, p, 171, 57)
		wantSession(p.Buy(ctx, 3))(t, 60, s.ID)
		checkAccounts(t, c, p, 201, 67)
		ch, err := p.CloseChannel(ctx)
		if err != nil || ch.State != "closed" || ch.Refund != 100_000-201 {
			t.Errorf("channel %+v, %v", ch, err)
		}
		// The session remains usable, and the next purchase opens another channel.
		wantSession(p.Ensure(ctx, 60))(t, 60, s.ID)
		wantSession(p.Ensure(ctx, 61))(t, 70, s.ID)
		if got := status(t, p); got.ChannelID == ch.ID || got.Spent != 231 || got.Bought != 30 {
			t.Errorf("status %+v", got)
		}
	})
}

// TestPayerPaysOnceWhateverIsLost checks that each request of a payer can be lost, answered without
// the payer noticing, or cut, once or until the payer returns an error, and that a later process
// finds the bought chunksets and pays nothing twice.
// Invariant 142.
func TestPayerPaysOnceWhateverIsLost(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]fault.Kind{"not delivered": fault.Fail, "no answer": fault.Lose, "cut body": fault.Tear} {
		for _, attempts := range []int{1, 100} {
			for _, pause := range []time.Duration{0, 2 * time.Minute, 25 * time.Hour} {
				if pause > 0 && (attempts == 1 || failure == fault.Tear) {
					continue
				}
				t.Run(fmt.Sprintf("%s %d times, %v later", name, attempts, pause), func(t *testing.T) {
					faults := 0
					for at := 0; ; at++ { // the request that fails first
						ended := false
						synctest.Test(t, func(t *testing.T) { ended = payOnce(t, failure, at, attempts, pause) })
						if ended {
							faults = at
							break
						}
					}
					if faults < 6 {
						t.Errorf("only %d requests were lost", faults)
					}
				})
			}
		}
	}
}

// payOnce buys, and adds to the session, while the request at, and those after it until attempts
// have failed, have the fault. It returns true if there were fewer requests.
func payOnce(t *testing.T, label fault.Kind, at, attempts int, pause time.Duration) bool {
	count, failing := 0, true
	c := newClient(t, &faulty{newService(t, serviceOptions{price: 3}), func(*http.Request) fault.Kind {
		count++
		if failing && count > at && count <= at+attempts {
			return label
		}
		return fault.None
	}})
	dir := testenv.MemoryDir(t)
	run := func() error {
		p := newPayer(t, c, dir) // as a new process
		if _, err := p.Ensure(t.Context(), 1); err != nil {
			return err
		}
		_, err := p.Ensure(t.Context(), 15)
		return err
	}
	err := run()
	if count <= at {
		return true
	}
	if attempts == 1 && err != nil {
		t.Errorf("request %d: one failed attempt is not repeated: %v", at, err)
	}
	failing = false
	time.Sleep(pause) // of the bubble's clock
	if at == 1 && pause > 24*time.Hour && attempts > 1 && label != fault.Fail {
		// The channel was opened, and its id cannot be found any more.
		checkMessage(t, run(), client.ErrConflict, "remove the state file")
		return false
	}
	if err := run(); err != nil {
		t.Errorf("request %d: %v", at, err)
		return false
	}
	p := newPayer(t, c, dir)
	got := status(t, p)
	ch := testenv.Must(c.Channel(t.Context(), got.ChannelID))(t)
	var total int64 // in a session that has expired, and in another that was bought instead
	for _, bought := range ch.Sessions {
		s := testenv.Must(c.Session(t.Context(), bought.ID))(t)
		total += s.ChunksetsTotal
	}
	s := testenv.Must(c.Session(t.Context(), got.SessionID))(t)
	if ch.Accepted != 3*uint64(total) || s.ChunksetsLeft < 15 || got.Bought != ch.Accepted || got.Signed != ch.Accepted || got.Pending || ch.Credit != 0 {
		t.Errorf("request %d: accepted %d for %d chunksets, %d left, %+v", at, ch.Accepted, total, s.ChunksetsLeft, got)
	}
	if pause < time.Hour && (total != 20 || len(ch.Sessions) != 1) {
		t.Errorf("request %d: %d chunksets in %d sessions, want 20 in one", at, total, len(ch.Sessions))
	}
	return false
}

// TestPayersShareAStateFile checks that payers of one state file, concurrent as in several
// processes, never sign conflicting numbers, and make one purchase when all need one.
// Invariant 142.
func TestPayersShareAStateFile(t *testing.T) {
	const payers, goroutines, rounds = 4, 4, 5
	c := newClient(t, newService(t, serviceOptions{price: 1}))
	dir := testenv.MemoryDir(t)
	var work sync.WaitGroup
	for range payers {
		p := newPayer(t, c, dir)
		for range goroutines {
			work.Go(func() { testenv.Check(t, testenv.Error(p.Ensure(t.Context(), 10))) })
		}
	}
	work.Wait()
	checkAccounts(t, c, newPayer(t, c, dir), 10, 10)
	for range payers {
		p := newPayer(t, c, dir)
		for range goroutines {
			work.Go(func() {
				for range rounds {
					testenv.Check(t, testenv.Error(p.Buy(t.Context(), 2)))
				}
			})
		}
	}
	work.Wait()
	const bought = payers * goroutines * rounds * 10 // a purchase has at least Chunksets
	checkAccounts(t, c, newPayer(t, c, dir), 10+bought, 10+bought)
}

// TestPayerOfAnotherInstance pays an instance, and then a second one at the same URL, which has
// another receiver. Nothing is paid, and the error names the difference and the file that belongs
// to the former one.
func TestPayerOfAnotherInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := testenv.MemoryDir(t)
		former := newClient(t, newService(t, serviceOptions{}))
		testenv.OK(t, testenv.Error(newPayer(t, former, dir).Ensure(t.Context(), 1)))
		present := newClient(t, newService(t, serviceOptions{receiver: "0xd"}))
		p := newPayer(t, present, dir)
		before := status(t, p)
		_, err := p.Ensure(t.Context(), 100)
		checkMessage(t, err, client.ErrTermsChanged, "the receiver is 0xd, and was 0xa",
			"if another instance is at "+present.URL()+" now, it requires another state file than "+dir)
		testenv.Equal(t, status(t, p).Signed, before.Signed, "the signed amount")
	})
}

// TestPayerBudget checks a payer's limits. A refused purchase is not signed.
func TestPayerBudget(t *testing.T) {
	terms := func(receiver, asset, module string, chain uint8) func(*client.PayerOptions) {
		return func(o *client.PayerOptions) {
			o.Terms = &client.Terms{Receiver: receiver, Asset: asset, Module: module, ChainID: chain}
		}
	}
	for name, test := range map[string]struct {
		change func(*client.PayerOptions)
		n      int64
		want   error
	}{
		"within all limits":      {func(o *client.PayerOptions) { o.MaxSpend, o.MaxPurchase, o.Deposit = 12, 12, 12 }, 4, nil},
		"fewer than usual":       {func(o *client.PayerOptions) { o.MaxPurchase = 14 }, 4, nil},
		"MaxSpend":               {func(o *client.PayerOptions) { o.MaxSpend = 11 }, 4, client.ErrBudget},
		"MaxPurchase":            {func(o *client.PayerOptions) { o.MaxPurchase = 11 }, 4, client.ErrBudget},
		"deposit":                {func(o *client.PayerOptions) { o.Deposit = 11 }, 4, client.ErrPaymentRequired},
		"MaxPrice":               {func(o *client.PayerOptions) { o.MaxPrice = 2 }, 1, client.ErrBudget},
		"more than there can be": {func(*client.PayerOptions) {}, 1<<63 - 1, client.ErrBudget},
		"other receiver":         {terms("0xd", "0xb", "0xc", 4), 1, client.ErrTermsChanged},
		"other asset":            {terms("0xa", "0xd", "0xc", 4), 1, client.ErrTermsChanged},
		"other module":           {terms("0xa", "0xb", "0xd", 4), 1, client.ErrTermsChanged},
		"other chain":            {terms("0xa", "0xb", "0xc", 5), 1, client.ErrTermsChanged},
		"the terms":              {terms("0x"+strings.Repeat("0", 63)+"A", "0xb", "0xc", 4), 1, nil},
	} {
		runInBubble(t, name, func(t *testing.T) {
			c := newClient(t, newService(t, serviceOptions{price: 3}))
			p := newPayer(t, c, testenv.MemoryDir(t), test.change)
			s, err := p.Ensure(t.Context(), test.n)
			testenv.Is(t, err, test.want, "Ensure")
			if got := status(t, p); err != nil && (got.Signed != 0 || got.Spent != 0) {
				t.Errorf("status %+v after %v", got, err)
			}
			if err == nil && s.ChunksetsLeft < test.n {
				t.Errorf("session %+v", s)
			}
		})
	}
}

// TestPayerWithoutItsState checks that a payer without its state file, or with an old copy,
// continues after the numbers that the service proves, and pays nothing twice.
func TestPayerWithoutItsState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, newService(t, serviceOptions{price: 3}))
		dir := testenv.MemoryDir(t)
		file := filepath.Join(dir, "payer.json")
		p := newPayer(t, c, dir)
		testenv.OK(t, testenv.Error(p.Buy(t.Context(), 10)))
		channel := status(t, p).ChannelID
		old := testenv.Must(os.ReadFile(file))(t)
		for range 2 {
			testenv.OK(t, testenv.Error(p.Buy(t.Context(), 10)))
		}
		testenv.OK(t, os.WriteFile(file, old, 0o600))
		p = newPayer(t, c, dir)
		testenv.Equal(t, testenv.Must(p.Buy(t.Context(), 10))(t).ChunksetsTotal, 40, "the chunksets after an old copy")
		checkAccounts(t, c, p, 120, 40)
		testenv.OK(t, os.Remove(file))
		// With a budget that does not cover the debt, nothing is signed beyond it.
		p = newPayer(t, c, dir, func(o *client.PayerOptions) { o.ChannelID, o.MaxSpend = channel, 149 })
		testenv.Is(t, testenv.Error(p.Buy(t.Context(), 10)), client.ErrBudget, "above the budget")
		p = newPayer(t, c, dir, func(o *client.PayerOptions) { o.ChannelID, o.MaxSpend = channel, 150 })
		testenv.Equal(t, testenv.Must(p.Buy(t.Context(), 10))(t).ChunksetsTotal, 10, "the chunksets after a lost state")
		checkStatus(t, p, 150, 150, false)
		if ch, err := c.Channel(t.Context(), channel); err != nil || ch.Accepted != 150 || ch.Credit != 0 {
			t.Errorf("channel %+v, %v", ch, err)
		}
	})
}

// TestPayerAfterRefusals checks that a purchase that was refused is not paid for by the next one.
func TestPayerAfterRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuse := true
		s := newService(t, serviceOptions{price: 3})
		refused := problem(402, "unsettled_limit", "")
		c := newClient(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			if refuse && r.Method == "POST" && r.URL.Path == "/v1/sessions" {
				return refused(r)
			}
			return s.RoundTrip(r)
		}))
		p := newPayer(t, c, testenv.MemoryDir(t))
		for range 3 {
			testenv.Is(t, testenv.Error(p.Buy(t.Context(), 20)), client.ErrPaymentRequired, "Buy")
			checkStatus(t, p, 60, 0, false)
		}
		refuse = false
		testenv.OK(t, testenv.Error(p.Buy(t.Context(), 11)))
		checkStatus(t, p, 60, 33, false)
		testenv.OK(t, testenv.Error(p.Buy(t.Context(), 10)))
		if ch, err := p.Channel(t.Context()); err != nil || ch.Accepted != 63 || ch.Credit != 0 {
			t.Errorf("channel %+v, %v", ch, err)
		}
		testenv.Check(t, testenv.Error(p.Deposit(t.Context(), 7, client.DepositOptions{})))
		testenv.Equal(t, testenv.Must(p.CloseChannel(t.Context()))(t).Refund, 100_000+7-63, "the refund")
		testenv.Is(t, testenv.Error(p.CloseChannel(t.Context())), client.ErrNotFound, "second close")
	})
}

// TestPayerIsToldThatItsPurchaseIsStale checks the case that a purchase was accepted although
// neither its response nor the channel shows it at first, so that another micropayment is signed
// for it: it has the same amount, and the service refuses it with the first one as the proof.
func TestPayerIsToldThatItsPurchaseIsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, serviceOptions{price: 3})
		var before []byte // the channel, before the purchase
		lossy, old := false, false
		c := newClient(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			channel := r.Method == "GET" && strings.HasPrefix(r.URL.Path, "/v1/sessions/micropaymentchannels/")
			if channel && old {
				return respond(200, nil, string(before))(r)
			}
			resp, err := s.RoundTrip(r)
			if err != nil {
				return nil, err
			}
			if lossy && r.Method == "POST" {
				return nil, errors.Join(errCut, resp.Body.Close())
			}
			if channel {
				if before, err = io.ReadAll(resp.Body); err != nil {
					return nil, err
				}
				resp.Body = io.NopCloser(bytes.NewReader(before))
			}
			return resp, nil
		}))
		p := newPayer(t, c, testenv.MemoryDir(t))
		testenv.OK(t, testenv.Error(p.Channel(t.Context())))
		testenv.OK(t, testenv.Error(p.Channel(t.Context()))) // reads it
		lossy, old = true, true
		testenv.Is(t, testenv.Error(p.Buy(t.Context(), 10)), client.ErrOutcomeUnknown, "Buy")
		time.Sleep(2 * time.Minute)
		lossy = false
		// The service proves that it was paid, and does not show the session.
		testenv.Is(t, testenv.Error(p.Buy(t.Context(), 10)), client.ErrNotDelivered, "Buy")
		checkStatus(t, p, 30, 0, true)
		testenv.Is(t, testenv.Error(p.CloseChannel(t.Context())), client.ErrNotDelivered, "close with a pending purchase")
		old = false
		wantSession(p.Ensure(t.Context(), 1))(t, 10, "")
		checkAccounts(t, c, p, 30, 10)
	})
}

// TestPayerWritesBeforeItSends checks that each micropayment, and the number of a channel, is in
// the state file before it is sent, and that the lock is held meanwhile.
func TestPayerWritesBeforeItSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, serviceOptions{price: 3})
		dir, sent := testenv.MemoryDir(t), 0
		var c *client.Client
		c = newClient(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodPost {
				return s.RoundTrip(r)
			}
			sent++
			text, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			r.Body = io.NopCloser(bytes.NewReader(text))
			var body struct{ MicropaymentUpdate, PaymentChannelID string }
			if err := json.Unmarshal(text, &body); err != nil {
				return nil, err
			}
			file, err := os.ReadFile(filepath.Join(dir, "payer.json"))
			if number := body.MicropaymentUpdate + body.PaymentChannelID; err != nil || number == "" || !strings.Contains(string(file), `"`+number+`"`) {
				t.Errorf("%s is sent, and the state file is %q, %v", text, file, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err = c.NewPayer(ctx, payerOptions(t, dir)) // the lock is held
			checkMessage(t, err, context.DeadlineExceeded, "another process uses it")
			return s.RoundTrip(r)
		}))
		p := newPayer(t, c, dir)
		for range 2 {
			testenv.OK(t, testenv.Error(p.Buy(t.Context(), 1)))
		}
		testenv.Equal(t, sent, 3, "the requests")
	})
}

// roundTripper is a transport that is a function.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestPriceThatRisesOnOneNode lets a node publish an old price while another sells at a higher one.
// Above MaxPrice nothing is taken, and the payer goes on when the price is acceptable.
func TestPriceThatRisesOnOneNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, serviceOptions{price: 6})
		published := "3"
		c := newClient(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			resp, err := s.RoundTrip(r)
			if err == nil && r.URL.Path == "/v1/info" {
				text, readErr := io.ReadAll(resp.Body)
				check(errors.Join(readErr, resp.Body.Close()))
				text = bytes.Replace(text, []byte(`"chunksetPrice":"6"`), []byte(`"chunksetPrice":"`+published+`"`), 1)
				resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
			}
			return resp, err
		}))
		dir := testenv.MemoryDir(t)
		p := newPayer(t, c, dir)
		for range 2 {
			_, err := p.Ensure(t.Context(), 1)
			checkMessage(t, err, client.ErrBudget, "price_changed", "costs 6 now", "at most 5")
			if ch := testenv.Must(p.Channel(t.Context()))(t); ch.Accepted != 0 || len(ch.Sessions) != 0 {
				t.Errorf("the channel has %+v", ch)
			}
		}
		checkStatus(t, p, 30, 0, false)
		published = "6"
		testenv.Is(t, testenv.Error(p.Ensure(t.Context(), 1)), client.ErrBudget, "at the published price")
		p = newPayer(t, c, dir, func(o *client.PayerOptions) { o.MaxPrice = 6 })
		wantSession(p.Ensure(t.Context(), 1))(t, 10, "")
		// The published price is too low, and the real one acceptable: it gets less for the same.
		published = "3"
		wantSession(p.Buy(t.Context(), 10))(t, 20, "")
		checkAccounts(t, c, p, 120, 20)
	})
}
