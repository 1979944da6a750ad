package payments

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/e2e"
)

const (
	paymentCrashRounds = 10
	crashPrice         = 3
)

// purse is a channel over which one payer pays, one micropayment after another, for sessions or for
// reads.
type purse struct {
	*e2e.Channel
	random       *rand.Rand
	acknowledged uint64   // the highest acknowledged amount
	known        uint64   // accepted amount after the last crash
	reads        e2e.Span // reads by micropayment: acknowledged, issued
}

// pass is a session and the bounds of its counts, from the acknowledged to the issued ones.
type pass struct {
	id    string
	total e2e.Span // chunksets bought; used by the payer only
	mu    sync.Mutex
	used  e2e.Span // protected by mu
}

// count adds to the acknowledged and issued counts.
func (p *pass) count(acknowledged, issued int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used.First += acknowledged
	p.used.Last += issued
}

// TestPaymentCrashes kills the server repeatedly under a load of purchases, refills, uses and paid
// reads, on the same data. After each start everything acknowledged must exist, nothing that no
// client has sent may exist, and every channel's amounts must add up.
// Invariants 2, 23.
func TestPaymentCrashes(t *testing.T) {
	seed := e2e.Seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	s := e2e.Start(t, e2e.Options{Dirty: true, Flags: []string{"--reads", "paid", "--chunkset-price", fmt.Sprint(crashPrice)}})
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "two"), e2e.Content(1, e2e.ChunksetSize+1000))
	var purses []*purse
	for i := range 3 {
		purses = append(purses, &purse{Channel: s.Open(s.Payer(byte(i+1)), 1<<40), random: rand.New(rand.NewPCG(seed, uint64(i+1)))})
	}
	var passes []*pass
	var requests atomic.Int64
	for round := range paymentCrashRounds {
		// The first two purses buy for one session each, the third one pays for reads.
		fresh := []*pass{purses[0].first(), purses[1].first()}
		passes = append(passes, fresh...)
		crashUnderPayments(s, purses, fresh, &requests, random)
		s.Restart()
		for _, p := range purses {
			p.Verify()
		}
		for _, p := range passes {
			p.Verify(s)
		}
		if t.Failed() {
			t.Fatalf("after crash %d", round+1)
		}
	}
	t.Logf("%d crashes, %d acknowledged requests", paymentCrashRounds, requests.Load())
	if requests.Load() < 10*paymentCrashRounds {
		t.Errorf("the load was too small to be meaningful: %d requests", requests.Load())
	}
}

// unexpected reports whether a response, or an error, is wrong. Only a request to a killed server
// may fail without a response.
func unexpected(t testing.TB, label string, r e2e.Response, err error, want int, killed *atomic.Bool) {
	t.Helper()
	switch {
	case err != nil && !killed.Load():
		t.Errorf("%s: %v before the kill", label, err)
	case err == nil && r.Status != want:
		t.Errorf("%s: %v, want %d", label, r, want)
	}
}

// first buys a round's session.
func (p *purse) first() *pass {
	bought := p.Buy(30)
	p.acknowledged = p.Amount
	return &pass{id: bought.SessionID, total: e2e.Span{First: bought.ChunksetsTotal, Last: bought.ChunksetsTotal}}
}

// crashUnderPayments runs two payers who refill, two users of each session, and one reader by
// micropayment, until the server has acknowledged a random number of requests. It then kills the
// server and waits until all of them have noticed.
func crashUnderPayments(s *e2e.Server, purses []*purse, passes []*pass, requests *atomic.Int64, random *rand.Rand) {
	s.T.Helper()
	var killed atomic.Bool
	left := atomic.Int64{}
	left.Store(1 + random.Int64N(200))
	kill := make(chan struct{})
	delay := time.Duration(random.Int64N(int64(8 * time.Millisecond)))
	acknowledge := func() {
		requests.Add(1)
		if left.Add(-1) == 0 {
			time.AfterFunc(delay, func() {
				killed.Store(true)
				close(kill)
			})
		}
	}
	var load sync.WaitGroup
	for i, p := range passes {
		load.Go(func() { purses[i].refill(p, &killed, acknowledge) })
		load.Go(func() { p.Use(s, &killed, acknowledge) })
		load.Go(func() { p.read(s, &killed, acknowledge) })
	}
	load.Go(func() { purses[2].read(&killed, acknowledge) })
	over := make(chan struct{})
	go func() {
		load.Wait()
		close(over)
	}()
	select {
	case <-kill:
	case <-over: // each of them had a failure and reported it
	}
	s.Kill()
	<-over
	e2e.Client.CloseIdleConnections()
}

// refill adds to the session until the server is gone, each time with another amount, which leaves
// a credit.
func (p *purse) refill(to *pass, killed *atomic.Bool, acknowledge func()) {
	for !killed.Load() {
		more := 1 + p.random.Uint64N(20)
		body := e2e.PurchaseBody(p.S.T, p.Next(more), to.id)
		to.total.Last = to.total.First + int64(more/crashPrice+1) // the credit is less than the price
		r, err := p.S.Try("POST", "/v1/sessions", body)
		if err == nil && r.Status == 402 { // less than one chunkset, so the payment was refused
			e2e.CheckProblem(p.S.T, r, 402, "insufficient_funds")
			p.Sequence, p.Amount = p.Sequence-1, p.Amount-more
			to.total.Last = to.total.First
			continue
		}
		unexpected(p.S.T, "refill", r, err, 200, killed)
		if err != nil {
			return
		}
		p.acknowledged = p.Amount
		got := e2e.AsSession(p.S.T, r).ChunksetsTotal
		if got <= to.total.First || got > to.total.Last {
			p.S.T.Errorf("refill: %d chunksets in all, %d before, %d paid for", got, to.total.First, to.total.Last)
		}
		to.total = e2e.Span{First: got, Last: got}
		acknowledge()
	}
}

// read reads by micropayment until the server is gone.
func (p *purse) read(killed *atomic.Bool, acknowledge func()) {
	for !killed.Load() {
		pays := p.Next(crashPrice + p.random.Uint64N(2))
		p.reads.Last++
		r, err := p.S.Try("GET", e2e.BlobTarget("0x1", "two"), nil, "X-Shelby-Micropayment", pays, "Range", "bytes=5-1004")
		unexpected(p.S.T, "read by micropayment", r, err, 206, killed)
		if err != nil {
			return
		}
		p.acknowledged = p.Amount
		p.reads.First++
		acknowledge()
	}
}

// Use uses the session until the server is gone.
func (p *pass) Use(s *e2e.Server, killed *atomic.Bool, acknowledge func()) {
	p.spend(s, killed, acknowledge, 1, 200, func() (e2e.Response, error) { return s.Try("POST", "/v1/sessions/"+p.id+"/use", nil) })
}

// read pays for reads with the session until the server is gone, two chunksets each.
func (p *pass) read(s *e2e.Server, killed *atomic.Bool, acknowledge func()) {
	p.spend(s, killed, acknowledge, 2, 206, func() (e2e.Response, error) {
		return s.Try("GET", e2e.BlobTarget("0x1", "two"), nil, "Session-Id", p.id, "Range", fmt.Sprintf("bytes=%d-%d", e2e.ChunksetSize-500, e2e.ChunksetSize+499))
	})
}

func (p *pass) spend(s *e2e.Server, killed *atomic.Bool, acknowledge func(), n int64, status int, request func() (e2e.Response, error)) {
	for !killed.Load() {
		p.count(0, n)
		r, err := request()
		if err == nil && r.Status == 402 { // until the next refill
			e2e.CheckProblem(s.T, r, 402, "no_chunksets_left")
			p.count(0, -n)
			continue
		}
		unexpected(s.T, "spending", r, err, status, killed)
		if err != nil {
			return
		}
		p.count(n, 0)
		acknowledge()
	}
}

// Verify compares the channel with the acknowledged and issued amounts, and with its sales.
func (p *purse) Verify() {
	p.S.T.Helper()
	state := p.Settled()
	accepted := uint64(e2e.Number(p.S.T, state.Accepted))
	if accepted < p.acknowledged || accepted > p.Amount || accepted < p.known {
		p.S.T.Errorf("channel: %d recovered, %d acknowledged, %d issued, %d after the previous crash", accepted, p.acknowledged, p.Amount, p.known)
	}
	sold := p.reads.Last
	if sold == 0 {
		for _, one := range state.Sessions {
			sold += p.S.SessionState(one.SessionID).ChunksetsTotal
		}
	} else {
		sold = (int64(accepted) - e2e.Number(p.S.T, state.Credit)) / crashPrice
		if sold < p.reads.First || sold > p.reads.Last {
			p.S.T.Errorf("channel: %d reads recovered, %d acknowledged, %d issued", sold, p.reads.First, p.reads.Last)
		}
		p.reads = e2e.Span{First: sold, Last: sold}
	}
	if sold*crashPrice+e2e.Number(p.S.T, state.Credit) != int64(accepted) {
		p.S.T.Errorf("channel: %d chunksets at %d and %s of credit are not %d accepted", sold, crashPrice, state.Credit, accepted)
	}
	// A state that a payer has read must stay; the payer continues from it.
	p.known, p.acknowledged, p.Amount = accepted, accepted, accepted
	p.Sequence = uint64(e2e.Number(p.S.T, state.SequenceNumber))
}

// Verify compares the session's counts with their bounds.
func (p *pass) Verify(s *e2e.Server) {
	s.T.Helper()
	state := s.SessionState(p.id)
	total, used := state.ChunksetsTotal, state.ChunksetsTotal-state.ChunksetsLeft
	if total < p.total.First || total > p.total.Last {
		s.T.Errorf("session: %d chunksets recovered, %d acknowledged, %d issued", total, p.total.First, p.total.Last)
	}
	if used < p.used.First || used > p.used.Last || state.ChunksetsLeft < 0 {
		s.T.Errorf("session: %d used recovered, %d acknowledged, %d issued, %d left", used, p.used.First, p.used.Last, state.ChunksetsLeft)
	}
	p.total, p.used = e2e.Span{First: total, Last: total}, e2e.Span{First: used, Last: used}
}
