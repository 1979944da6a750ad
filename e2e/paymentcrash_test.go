package e2e

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	paymentCrashRounds = 10
	crashPrice         = 3
)

// purse is a channel over which one payer pays, one micropayment after another, for sessions or for
// reads.
type purse struct {
	*channel
	random       *rand.Rand
	acknowledged uint64 // the highest acknowledged amount
	known        uint64 // accepted amount after the last crash
	reads        span   // reads by micropayment: acknowledged, issued
}

// pass is a session and the bounds of its counts, from what was acknowledged to what was issued.
type pass struct {
	id    string
	total span // chunksets bought; used by the payer only
	mu    sync.Mutex
	used  span // protected by mu
}

// count adds to the acknowledged and issued counts.
func (p *pass) count(acknowledged, issued int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used.first += acknowledged
	p.used.last += issued
}

// TestPaymentCrashes kills the server repeatedly under a load of purchases, refills, uses and paid
// reads, on the same data. After each start everything acknowledged must exist, nothing that no
// client has sent may exist, and every channel's amounts must add up.
func TestPaymentCrashes(t *testing.T) {
	seed := seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	s := start(t, options{dirty: true, flags: []string{"--reads", "paid", "--chunkset-price", fmt.Sprint(crashPrice)}})
	s.must(204, "PUT", blobTarget("0x1", "two"), content(1, chunksetSize+1000))
	var purses []*purse
	for i := range 3 {
		purses = append(purses, &purse{channel: s.open(s.payer(byte(i+1)), 1<<40), random: rand.New(rand.NewPCG(seed, uint64(i+1)))})
	}
	var passes []*pass
	var requests atomic.Int64
	for round := range paymentCrashRounds {
		// The first two purses buy for one session each, the third one pays for reads.
		fresh := []*pass{purses[0].first(), purses[1].first()}
		passes = append(passes, fresh...)
		crashUnderPayments(s, purses, fresh, &requests, random)
		s.restart()
		for _, p := range purses {
			p.verify()
		}
		for _, p := range passes {
			p.verify(s)
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

// first buys a round's session.
func (p *purse) first() *pass {
	bought := p.buy(30)
	p.acknowledged = p.amount
	return &pass{id: bought.SessionID, total: span{bought.ChunksetsTotal, bought.ChunksetsTotal}}
}

// crashUnderPayments runs two payers who refill, two users of each session, and one reader by
// micropayment, until the server has acknowledged a random number of requests. It then kills the
// server and waits until all of them have noticed.
func crashUnderPayments(s *server, purses []*purse, passes []*pass, requests *atomic.Int64, random *rand.Rand) {
	s.t.Helper()
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
		load.Go(func() { p.use(s, &killed, acknowledge) })
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
	s.kill()
	<-over
	client.CloseIdleConnections()
}

// refill adds to the session until the server is gone, each time with another amount, which leaves
// a credit.
func (p *purse) refill(to *pass, killed *atomic.Bool, acknowledge func()) {
	for !killed.Load() {
		more := 1 + p.random.Uint64N(20)
		body := purchaseBody(p.s.t, p.next(more), to.id)
		to.total.last = to.total.first + int64(more/crashPrice+1) // the credit is less than the price
		r, err := p.s.try("POST", "/v1/sessions", body)
		if err == nil && r.status == 402 { // less than one chunkset, so the payment was refused
			checkProblem(p.s.t, r, 402, "insufficient_funds")
			p.sequence, p.amount = p.sequence-1, p.amount-more
			to.total.last = to.total.first
			continue
		}
		unexpected(p.s.t, "refill", r, err, 200, killed)
		if err != nil {
			return
		}
		p.acknowledged = p.amount
		got := asSession(p.s.t, r).ChunksetsTotal
		if got <= to.total.first || got > to.total.last {
			p.s.t.Errorf("refill: %d chunksets in all, %d before, %d paid for", got, to.total.first, to.total.last)
		}
		to.total = span{got, got}
		acknowledge()
	}
}

// read reads by micropayment until the server is gone.
func (p *purse) read(killed *atomic.Bool, acknowledge func()) {
	for !killed.Load() {
		pays := p.next(crashPrice + p.random.Uint64N(2))
		p.reads.last++
		r, err := p.s.try("GET", blobTarget("0x1", "two"), nil, "X-Shelby-Micropayment", pays, "Range", "bytes=5-1004")
		unexpected(p.s.t, "read by micropayment", r, err, 206, killed)
		if err != nil {
			return
		}
		p.acknowledged = p.amount
		p.reads.first++
		acknowledge()
	}
}

// use uses the session until the server is gone.
func (p *pass) use(s *server, killed *atomic.Bool, acknowledge func()) {
	p.spend(s, killed, acknowledge, 1, 200, func() (response, error) { return s.try("POST", "/v1/sessions/"+p.id+"/use", nil) })
}

// read pays for reads with the session until the server is gone, two chunksets each.
func (p *pass) read(s *server, killed *atomic.Bool, acknowledge func()) {
	p.spend(s, killed, acknowledge, 2, 206, func() (response, error) {
		return s.try("GET", blobTarget("0x1", "two"), nil, "Session-Id", p.id, "Range", fmt.Sprintf("bytes=%d-%d", chunksetSize-500, chunksetSize+499))
	})
}

func (p *pass) spend(s *server, killed *atomic.Bool, acknowledge func(), n int64, status int, request func() (response, error)) {
	for !killed.Load() {
		p.count(0, n)
		r, err := request()
		if err == nil && r.status == 402 { // until the next refill
			checkProblem(s.t, r, 402, "no_chunksets_left")
			p.count(0, -n)
			continue
		}
		unexpected(s.t, "spending", r, err, status, killed)
		if err != nil {
			return
		}
		p.count(n, 0)
		acknowledge()
	}
}

// verify compares the channel with what was acknowledged and issued, and its amounts with what it
// sold.
func (p *purse) verify() {
	p.s.t.Helper()
	state := p.settled()
	accepted := uint64(number(p.s.t, state.Accepted))
	if accepted < p.acknowledged || accepted > p.amount || accepted < p.known {
		p.s.t.Errorf("channel: %d recovered, %d acknowledged, %d issued, %d after the previous crash", accepted, p.acknowledged, p.amount, p.known)
	}
	sold := p.reads.last
	if sold == 0 {
		for _, one := range state.Sessions {
			sold += p.s.sessionState(one.SessionID).ChunksetsTotal
		}
	} else {
		sold = (int64(accepted) - number(p.s.t, state.Credit)) / crashPrice
		if sold < p.reads.first || sold > p.reads.last {
			p.s.t.Errorf("channel: %d reads recovered, %d acknowledged, %d issued", sold, p.reads.first, p.reads.last)
		}
		p.reads = span{sold, sold}
	}
	if sold*crashPrice+number(p.s.t, state.Credit) != int64(accepted) {
		p.s.t.Errorf("channel: %d chunksets at %d and %s of credit are not %d accepted", sold, crashPrice, state.Credit, accepted)
	}
	// A state that a payer has read must stay; the payer continues from it.
	p.known, p.acknowledged, p.amount = accepted, accepted, accepted
	p.sequence = uint64(number(p.s.t, state.SequenceNumber))
}

// verify compares the session's counts with their bounds.
func (p *pass) verify(s *server) {
	s.t.Helper()
	state := s.sessionState(p.id)
	total, used := state.ChunksetsTotal, state.ChunksetsTotal-state.ChunksetsLeft
	if total < p.total.first || total > p.total.last {
		s.t.Errorf("session: %d chunksets recovered, %d acknowledged, %d issued", total, p.total.first, p.total.last)
	}
	if used < p.used.first || used > p.used.last || state.ChunksetsLeft < 0 {
		s.t.Errorf("session: %d used recovered, %d acknowledged, %d issued, %d left", used, p.used.first, p.used.last, state.ChunksetsLeft)
	}
	p.total, p.used = span{total, total}, span{used, used}
}
