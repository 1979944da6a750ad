//go:build long

package chain

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/micropay"
	"sluice/test/fullnode"
	"sluice/test/testenv"
)

const (
	owedStart   = 40   // the starting limit
	owedLimit   = 1000 // --unsettled-limit
	owedDeposit = 1 << 40
)

// debtor pays over a channel, honestly or not.
type debtor struct {
	*e2e.Channel
	chain        *e2e.TestChain
	name         string
	honest       bool
	never        bool                    // the server may sell it nothing
	change       func(*micropay.Payment) // of each payment
	harm         func(*debtor)           // the payer's acts on the chain after a purchase
	random       *rand.Rand
	acknowledged uint64 // the highest acknowledged amount
	ended        bool   // on the chain
	reopened     bool   // under the same number, after it was ended
	answers      map[string]int
}

// TestBooksAreEqualAfterKillsLong kills the server, and cuts the fullnode off, for an hour
// (SLUICE_TEST_LONG) while honest payers pay beside attackers. Attackers sign payments that no
// chain executes, offer a thousand times the gas price, let payments expire, deposit the collected
// amount, and end channels and open them again. The fullnode's clock may be a day ahead. The server
// halts nothing, and no attacker owes more than its channel's selling limit. At the end the service
// and the chain have the same books: the server has collected the honest payers' debts, once.
// Invariant 182.
func TestBooksAreEqualAfterKillsLong(t *testing.T) {
	seed := e2e.Seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	chain := e2e.StartChain(t)
	o := chain.With("--unsettled-limit", strconv.Itoa(owedLimit)).Tuned(e2e.Tuning{"StartingLimit": owedStart, "SettleAt": 20, "ChannelRefresh": 2 * time.Second})
	o.Dirty = true
	s := e2e.Start(t, o)
	debtors := newDebtors(chain, s, seed)
	end := time.Now().Add(testenv.LongDuration(t))
	kills, away, acknowledged := 0, false, atomic.Int64{}
	for time.Now().Before(end) {
		payUntilKilled(s, debtors, &acknowledged, random)
		kills++
		s.Restart()
		interfere(chain, random, &away)
		for i, d := range debtors {
			d.Verify()
			if d.ended && !away {
				debtors[i] = d.anew(uint64(kills)<<8 + uint64(i))
			}
		}
		if t.Failed() {
			t.Fatalf("after kill %d", kills)
		}
	}
	chain.Recover()
	for _, d := range debtors {
		if d.honest {
			d.clear()
		}
	}
	compareBooks(t, s, chain, debtors)
	s.Stop()
	if r := e2e.SluiceRuns(t, "check", "--books", "--data", s.Data); r.Code != 0 {
		t.Errorf("audit: %s%s", r.Stdout, r.Stderr)
	}
	t.Logf("%d kills, %d purchases", kills, acknowledged.Load())
	if acknowledged.Load() < int64(kills) {
		t.Error("the load was too small to be meaningful")
	}
}

// newDebtors returns payers of each kind, each with a channel on the chain.
func newDebtors(chain *e2e.TestChain, s *e2e.Server, seed uint64) []*debtor {
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
		{name: "deposits the collected amount", change: unchanged, harm: func(d *debtor) {
			d.chain.Deposit(onChain(d.chain, d.S.T, d.Number), onChain(d.chain, d.S.T, d.Number).Withdrawn)
		}},
		{name: "ends its channels", change: unchanged, harm: func(d *debtor) { d.chain.Remove(onChain(d.chain, d.S.T, d.Number)); d.ended = true }},
		{name: "opens its channels again", change: unchanged, harm: (*debtor).reopen},
	}
	var list []*debtor
	for i := range kinds {
		d := &kinds[i]
		d.chain, d.random, d.answers = chain, rand.New(rand.NewPCG(seed, uint64(i+1))), map[string]int{}
		p := s.Payer(byte(i + 1))
		chain.SetAccountSequence(p.Signer.Address().String(), 7)
		d.Channel = chain.OpenOn(s, p, uint64(i+1), owedDeposit)
		list = append(list, d)
	}
	return list
}

// anew returns the payer with another channel number.
func (d *debtor) anew(number uint64) *debtor {
	next := *d
	next.Channel, next.acknowledged = d.chain.OpenOn(d.S, d.Payer, number, owedDeposit), 0
	next.ended, next.reopened = false, false
	return &next
}

// reopen ends the channel and opens it again under its number.
func (d *debtor) reopen() {
	on := onChain(d.chain, d.S.T, d.Number)
	on.Created, on.Withdrawn, on.NextSequence = fullnode.Time{Time: time.Now()}, 0, 0
	d.chain.Reopen(on)
	d.ended, d.reopened = true, true
}

// interfere lets the fullnode be as it is, or mends it, and may then make it fail in another way.
// away is set if no channel can be opened now.
func interfere(chain *e2e.TestChain, random *rand.Rand, away *bool) {
	if random.IntN(3) == 0 {
		chain.Recover()
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
func payUntilKilled(s *e2e.Server, debtors []*debtor, acknowledged *atomic.Int64, random *rand.Rand) {
	s.T.Helper()
	var killed atomic.Bool
	var load sync.WaitGroup
	for _, d := range debtors {
		load.Go(func() { d.pay(&killed, acknowledged) })
	}
	<-time.After(time.Duration(1+random.IntN(20)) * 250 * time.Millisecond)
	killed.Store(true)
	s.Kill()
	load.Wait()
	e2e.Client.CloseIdleConnections()
}

// pay pays until the server is gone.
func (d *debtor) pay(killed *atomic.Bool, acknowledged *atomic.Int64) {
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for !killed.Load() && !d.ended {
		<-pause.C
		r, err := d.S.Try("POST", "/v1/sessions", e2e.PurchaseBody(d.S.T, d.Next(1+d.random.Uint64N(8), d.change), ""))
		switch {
		case err != nil && killed.Load():
			return
		case err != nil:
			d.S.T.Errorf("%s: %v before the kill", d.name, err)
			return
		case r.Status == http.StatusCreated:
			d.acknowledged = d.Amount
			d.answers["sold"]++
			acknowledged.Add(1)
			if d.harm != nil && d.random.IntN(20) == 0 {
				d.harm(d)
			}
		case r.Status != http.StatusPaymentRequired && r.Status != http.StatusServiceUnavailable:
			d.S.T.Errorf("%s: %v", d.name, r)
			return
		default:
			d.answers[e2e.Member(d.S.T, r, "code")]++
			if !d.reconsider(killed) {
				return
			}
		}
	}
}

// reconsider reads the channel after a refusal, and renews an honest payer's expired payment. It
// reports whether the server answered.
func (d *debtor) reconsider(killed *atomic.Bool) bool {
	r, err := d.S.Try("GET", e2e.Channels+"/"+d.ID, nil)
	if err != nil || r.Status != http.StatusOK {
		if !killed.Load() {
			d.S.T.Errorf("%s: the channel: %v, %v", d.name, r, err)
		}
		return false
	}
	d.synchronize(r)
	var more struct {
		Expired string `json:"expired"`
	}
	r.Decode(d.S.T, &more)
	if !d.honest || more.Expired == "" {
		return true
	}
	d.Sequence++
	r, err = d.S.Try("POST", e2e.Channels+"/"+d.ID+"/renew", e2e.AsJSON(d.S.T, map[string]any{"micropaymentUpdate": d.Again(d.change)}))
	if err != nil {
		return false
	}
	if r.Status/100 != 2 && r.Status != http.StatusConflict && r.Status != http.StatusPaymentRequired && r.Status != http.StatusServiceUnavailable {
		d.S.T.Errorf("%s: a renewal: %v", d.name, r)
	} else {
		d.answers[fmt.Sprint("renewal ", r.Status)]++
	}
	return true
}

// synchronize continues from the amount that the service has accepted.
func (d *debtor) synchronize(r e2e.Response) e2e.ChannelState {
	var state e2e.ChannelState
	r.Decode(d.S.T, &state)
	d.Amount = uint64(e2e.Number(d.S.T, state.Accepted))
	d.Sequence = max(d.Sequence, uint64(e2e.Number(d.S.T, state.SequenceNumber)))
	return state
}

// Verify compares the channel with the acknowledged and issued amounts, and with its limit.
func (d *debtor) Verify() {
	d.S.T.Helper()
	issued := d.Amount
	r := d.S.Must(200, "GET", e2e.Channels+"/"+d.ID, nil)
	state := d.synchronize(r)
	if d.Amount < d.acknowledged || d.Amount > issued && !d.ended {
		d.S.T.Errorf("%s: %d recovered, %d acknowledged, %d issued", d.name, d.Amount, d.acknowledged, issued)
	}
	unsettled, settled := e2e.Number(d.S.T, state.Unsettled), e2e.Number(d.S.T, state.Settled)
	if unsettled > owedLimit || unsettled > owedStart+settled {
		d.S.T.Errorf("%s: %d are unsettled, and %d were collected", d.name, unsettled, settled)
	}
}

// clear waits until the server has collected everything that an honest payer owes. It renews
// payments that expire meanwhile.
func (d *debtor) clear() {
	d.S.T.Helper()
	var never atomic.Bool
	deadline := time.Now().Add(5 * time.Minute)
	for tick := time.NewTicker(time.Second); ; <-tick.C {
		state := d.synchronize(d.S.Must(200, "GET", e2e.Channels+"/"+d.ID, nil))
		if state.Unsettled == "0" {
			return
		}
		if time.Now().After(deadline) {
			d.S.T.Fatalf("%s: %s of %s are not collected", d.name, state.Unsettled, state.Accepted)
		}
		d.reconsider(&never)
	}
}

// compareBooks compares the service's books with the chain's, channel by channel.
func compareBooks(t *testing.T, s *e2e.Server, chain *e2e.TestChain, debtors []*debtor) {
	t.Helper()
	for _, d := range debtors {
		t.Logf("%s: %v", d.name, d.answers)
		state := d.booked()
		if d.never && d.answers["sold"] > 0 {
			t.Errorf("%s: something was sold", d.name)
		}
		if d.honest && (state.Settled != state.Accepted || state.State != "open") {
			t.Errorf("%s: the channel is %+v", d.name, state)
		}
	}
	if r := s.Must(200, "GET", "/v1/info", nil); strings.Contains(string(r.Body), "halted") {
		t.Errorf("settling has halted: %s", fmt.Sprint(r))
	}
}

// booked waits until the service has settled the amount that the chain has executed over the
// channel, because a submission may still be in flight, and returns the channel.
func (d *debtor) booked() (state e2e.ChannelState) {
	d.S.T.Helper()
	deadline := time.Now().Add(time.Minute)
	for tick := time.NewTicker(time.Second); ; <-tick.C {
		state = d.State()
		paid, highest := d.executed()
		if settled := uint64(e2e.Number(d.S.T, state.Settled)); settled == paid || d.reopened && settled == highest {
			return state
		}
		if time.Now().After(deadline) {
			d.S.T.Errorf("%s: the service has settled %s, and the chain has paid %d, by payments of at most %d", d.name, state.Settled, paid, highest)
			return state
		}
	}
}

// executed returns the sum that the chain has paid over the channel's number, and the greatest
// amount that it has executed. They differ if the channel was opened again: the new one pays a
// whole amount, including the part that the old one has paid.
func (d *debtor) executed() (paid, highest uint64) {
	for _, e := range d.chain.Executed() {
		if e.Channel == d.Number && e.Success {
			paid, highest = paid+e.Paid, max(highest, e.Amount)
		}
	}
	return paid, highest
}
