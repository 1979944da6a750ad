//go:build long

package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/fullnode"
	"sluice/micropay"
)

var longTime = flag.Duration("long", time.Hour, "how long a test of make long runs")

const (
	owedStart   = 40   // --starting-limit
	owedLimit   = 1000 // --unsettled-limit
	owedDeposit = 1 << 40
)

// debtor pays over a channel, honestly or not.
type debtor struct {
	*channel
	chain        *testChain
	name         string
	honest       bool
	never        bool                    // the server may sell it nothing
	change       func(*micropay.Payment) // of each payment
	harm         func(*debtor)           // what the payer does on the chain after a purchase
	random       *rand.Rand
	acknowledged uint64 // the highest acknowledged amount
	ended        bool   // on the chain
	answers      map[string]int
}

// TestBooksAreEqualAfterKills kills the server, and cuts the fullnode off, for an hour (-long)
// while honest payers pay beside attackers. Attackers sign payments that no chain executes, offer a
// thousand times the gas price, let payments expire, deposit what the server has collected, and end
// channels and open them again. The fullnode's clock may be a day ahead. The server halts nothing,
// and no attacker owes more than its channel's selling limit. At the end the service and the chain
// have the same books: the server has collected what honest payers owe, once.
func TestBooksAreEqualAfterKills(t *testing.T) {
	seed := seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	chain := startChain(t)
	o := chain.with("--starting-limit", strconv.Itoa(owedStart), "--unsettled-limit", strconv.Itoa(owedLimit), "--settle-at", "20", "--channel-refresh", "2s")
	o.dirty = true
	s := start(t, o)
	debtors := newDebtors(chain, s, seed)
	end := time.Now().Add(*longTime)
	kills, away, acknowledged := 0, false, atomic.Int64{}
	for time.Now().Before(end) {
		payUntilKilled(s, debtors, &acknowledged, random)
		kills++
		s.restart()
		interfere(chain, random, &away)
		for i, d := range debtors {
			d.verify()
			if d.ended && !away {
				debtors[i] = d.anew(uint64(kills)<<8 + uint64(i))
			}
		}
		if t.Failed() {
			t.Fatalf("after kill %d", kills)
		}
	}
	chain.recover()
	for _, d := range debtors {
		if d.honest {
			d.clear()
		}
	}
	compareBooks(t, s, chain, debtors)
	s.stop()
	if r := sluiceRuns(t, "audit", "--data", s.data); r.code != 0 {
		t.Errorf("audit: %s%s", r.stdout, r.stderr)
	}
	t.Logf("%d kills, %d purchases", kills, acknowledged.Load())
	if acknowledged.Load() < int64(kills) {
		t.Error("the load was too small to be meaningful")
	}
}

// newDebtors returns payers of each kind, each with a channel on the chain.
func newDebtors(chain *testChain, s *server, seed uint64) []*debtor {
	unchanged := func(*micropay.Payment) {}
	kinds := []debtor{
		{name: "honest", honest: true, change: unchanged},
		{name: "honest and quick to expire", honest: true, change: livesFor(25 * time.Second)},
		{name: "honest with large gas", honest: true, change: func(p *micropay.Payment) { p.MaxGas = 400_000 }},
		{name: "leaves payments to expire", change: livesFor(15 * time.Second)},
		{name: "too little gas for the chain", never: true, change: func(p *micropay.Payment) { p.MaxGas = 1 }},
		{name: "too little gas to execute", change: func(p *micropay.Payment) { p.MaxGas = 11 }},
		{name: "an account sequence that has passed", change: func(p *micropay.Payment) { p.Form, p.AccountSequence = micropay.FormPlain, 0 }},
		{name: "a versioned payload with a wrong sequence", change: func(p *micropay.Payment) { p.Form, p.AccountSequence = micropay.FormSequence, 3 }},
		{name: "a thousand times the price of gas", never: true, change: func(p *micropay.Payment) { p.GasPrice *= 1000; p.MaxGas = 500 }},
		{name: "deposits what was collected", change: unchanged, harm: func(d *debtor) {
			d.chain.Deposit(d.chain.onChain(d.s.t, d.number), d.chain.onChain(d.s.t, d.number).Withdrawn)
		}},
		{name: "ends its channels", change: unchanged, harm: func(d *debtor) { d.chain.Remove(d.chain.onChain(d.s.t, d.number)); d.ended = true }},
		{name: "opens its channels again", change: unchanged, harm: (*debtor).reopen},
	}
	var list []*debtor
	for i := range kinds {
		d := &kinds[i]
		d.chain, d.random, d.answers = chain, rand.New(rand.NewPCG(seed, uint64(i+1))), map[string]int{}
		p := s.payer(byte(i + 1))
		chain.SetAccountSequence(p.signer.Address().String(), 7)
		d.channel = chain.open(s, p, uint64(i+1), owedDeposit)
		list = append(list, d)
	}
	return list
}

func livesFor(life time.Duration) func(*micropay.Payment) {
	return func(p *micropay.Payment) { p.Expiration = uint64(time.Now().Add(life).Unix()) }
}

// anew returns the payer with another channel number.
func (d *debtor) anew(number uint64) *debtor {
	next := *d
	next.channel, next.acknowledged, next.ended = d.chain.open(d.s, d.payer, number, owedDeposit), 0, false
	return &next
}

// reopen ends the channel and opens it again under its number.
func (d *debtor) reopen() {
	on := d.chain.onChain(d.s.t, d.number)
	on.Created, on.Withdrawn, on.NextSequence = fullnode.Time{Time: time.Now()}, 0, 0
	d.chain.Reopen(on)
	d.ended = true
}

// recover ends everything that is wrong with the fullnode.
func (c *testChain) recover() {
	c.Restart()
	c.Heal()
	c.Lie(0)
}

// interfere lets the fullnode be as it is, or mends it, and may then make it fail in another way.
// away is set if no channel can be opened now.
func interfere(chain *testChain, random *rand.Rand, away *bool) {
	if random.IntN(3) == 0 {
		chain.recover()
		fault := random.IntN(7)
		switch fault {
		case 0:
			chain.Kill()
		case 1:
			chain.Fail(fullnode.Fault{On: fullnode.Submit, Times: 1 + random.IntN(5), Answer: fullnode.Cut})
		case 2:
			chain.Fail(fullnode.Fault{On: fullnode.Submit, Times: 1 + random.IntN(5), Effect: fullnode.Drop})
		case 3:
			chain.Fail(fullnode.Fault{On: fullnode.Simulate, Answer: fullnode.Cut})
		case 4:
			chain.Lie(24 * time.Hour)
		case 5:
			chain.Prune()
		}
		*away = fault == 0 || fault == 4
	}
}

// payUntilKilled lets all pay, kills the server after a random time, and waits until all have
// noticed.
func payUntilKilled(s *server, debtors []*debtor, acknowledged *atomic.Int64, random *rand.Rand) {
	s.t.Helper()
	var killed atomic.Bool
	var load sync.WaitGroup
	for _, d := range debtors {
		load.Go(func() { d.pay(&killed, acknowledged) })
	}
	<-time.After(time.Duration(1+random.IntN(20)) * 250 * time.Millisecond)
	killed.Store(true)
	s.kill()
	load.Wait()
	client.CloseIdleConnections()
}

// pay pays until the server is gone.
func (d *debtor) pay(killed *atomic.Bool, acknowledged *atomic.Int64) {
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for !killed.Load() && !d.ended {
		<-pause.C
		r, err := d.s.try("POST", "/v1/sessions", purchaseBody(d.s.t, d.next(1+d.random.Uint64N(8), d.change), ""))
		switch {
		case err != nil && killed.Load():
			return
		case err != nil:
			d.s.t.Errorf("%s: %v before the kill", d.name, err)
			return
		case r.status == http.StatusCreated:
			d.acknowledged = d.amount
			d.answers["sold"]++
			acknowledged.Add(1)
			if d.harm != nil && d.random.IntN(20) == 0 {
				d.harm(d)
			}
		case r.status != http.StatusPaymentRequired && r.status != http.StatusServiceUnavailable:
			d.s.t.Errorf("%s: %v", d.name, r)
			return
		default:
			d.answers[member(d.s.t, r, "code")]++
			if !d.reconsider(killed) {
				return
			}
		}
	}
}

// reconsider reads the channel after a refusal, and renews an honest payer's expired payment. It
// reports whether the server answered.
func (d *debtor) reconsider(killed *atomic.Bool) bool {
	r, err := d.s.try("GET", channels+"/"+d.id, nil)
	if err != nil || r.status != http.StatusOK {
		if !killed.Load() {
			d.s.t.Errorf("%s: the channel: %v, %v", d.name, r, err)
		}
		return false
	}
	d.synchronize(r)
	var more struct {
		Expired string `json:"expired"`
	}
	r.decode(d.s.t, &more)
	if !d.honest || more.Expired == "" {
		return true
	}
	d.sequence++
	r, err = d.s.try("POST", channels+"/"+d.id+"/renew", asJSON(d.s.t, map[string]any{"micropaymentUpdate": d.again(d.change)}))
	if err != nil {
		return false
	}
	if r.status/100 != 2 && r.status != http.StatusConflict && r.status != http.StatusPaymentRequired && r.status != http.StatusServiceUnavailable {
		d.s.t.Errorf("%s: a renewal: %v", d.name, r)
	} else {
		d.answers[fmt.Sprint("renewal ", r.status)]++
	}
	return true
}

// synchronize continues from what the service has accepted.
func (d *debtor) synchronize(r response) channelState {
	var state channelState
	r.decode(d.s.t, &state)
	d.amount = uint64(number(d.s.t, state.Accepted))
	d.sequence = max(d.sequence, uint64(number(d.s.t, state.SequenceNumber)))
	return state
}

// verify compares the channel with what was acknowledged and issued, and with its limit.
func (d *debtor) verify() {
	d.s.t.Helper()
	issued := d.amount
	r := d.s.must(200, "GET", channels+"/"+d.id, nil)
	state := d.synchronize(r)
	if d.amount < d.acknowledged || d.amount > issued && !d.ended {
		d.s.t.Errorf("%s: %d recovered, %d acknowledged, %d issued", d.name, d.amount, d.acknowledged, issued)
	}
	unsettled, settled := number(d.s.t, state.Unsettled), number(d.s.t, state.Settled)
	if unsettled > owedLimit || unsettled > owedStart+settled {
		d.s.t.Errorf("%s: %d are unsettled, and %d were collected", d.name, unsettled, settled)
	}
}

// clear waits until the server has collected everything that an honest payer owes. It renews what
// expires meanwhile.
func (d *debtor) clear() {
	d.s.t.Helper()
	var never atomic.Bool
	deadline := time.Now().Add(5 * time.Minute)
	for tick := time.NewTicker(time.Second); ; <-tick.C {
		state := d.synchronize(d.s.must(200, "GET", channels+"/"+d.id, nil))
		if state.Unsettled == "0" {
			return
		}
		if time.Now().After(deadline) {
			d.s.t.Fatalf("%s: %s of %s are not collected", d.name, state.Unsettled, state.Accepted)
		}
		d.reconsider(&never)
	}
}

// compareBooks compares what the service has settled with what the chain has paid, over each
// channel and in all.
func compareBooks(t *testing.T, s *server, chain *testChain, debtors []*debtor) {
	t.Helper()
	paid := map[uint64]uint64{}
	for _, e := range chain.Executed() {
		paid[e.Channel] += e.Paid
	}
	for _, d := range debtors {
		t.Logf("%s: %v", d.name, d.answers)
		state := d.state()
		if got := uint64(number(t, state.Settled)); got != paid[d.number] {
			t.Errorf("%s: the service has settled %d, and the chain has paid %d", d.name, got, paid[d.number])
		}
		if d.never && d.answers["sold"] > 0 {
			t.Errorf("%s: something was sold", d.name)
		}
		if d.honest && (state.Settled != state.Accepted || !strings.Contains("open", state.State)) {
			t.Errorf("%s: the channel is %+v", d.name, state)
		}
	}
	if r := s.must(200, "GET", "/v1/info", nil); strings.Contains(string(r.body), "halted") {
		t.Errorf("settling has halted: %s", fmt.Sprint(r))
	}
}
