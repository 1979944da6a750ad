package paychan_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"

	"sluice/ledger"
	"sluice/paychan"
	"sluice/test/testenv"
)

// channelOp is a client's operation on a channel.
type channelOp struct {
	kind             string // buy, read, deposit, get or close
	sequence, amount int64  // for a payment; amount also for a deposit
	count            int64  // for a read
}

// channelResult is an operation's result.
type channelResult struct {
	refusal             error // the sentinel
	stored              int64 // sequence in a StaleError
	required, available int64 // amounts in a InsufficientFundsError
	bought              int64
	channel             account // except after a purchase
}

// account is a channel's state.
type account struct {
	accepted, sequence, credit, deposit int64
	closed                              bool
}

const channelPrice = 3

// apply is an operation's sequential specification. No payment in these histories has the number 0.
func (a account) apply(op channelOp) (account, channelResult) {
	refused := func(result channelResult) (account, channelResult) { return a, result }
	payment := op.kind == "buy" || op.kind == "read"
	spendable := op.amount - a.accepted + a.credit
	switch {
	case op.kind == "get":
	case op.kind == "close":
		a.closed = true
	case a.closed:
		return refused(channelResult{refusal: ledger.ErrChannelClosed})
	case op.kind == "deposit":
		a.deposit += op.amount
	case payment && (op.sequence <= a.sequence || op.amount <= a.accepted):
		return refused(channelResult{refusal: ledger.ErrStalePayment, stored: a.sequence})
	case payment && op.amount > a.deposit:
		return refused(channelResult{refusal: ledger.ErrInsufficientFunds, required: op.amount, available: a.deposit})
	case op.kind == "buy" && spendable < channelPrice:
		return refused(channelResult{refusal: ledger.ErrInsufficientFunds, required: channelPrice, available: spendable})
	case op.kind == "read" && spendable < op.count*channelPrice:
		return refused(channelResult{refusal: ledger.ErrInsufficientFunds, required: op.count * channelPrice, available: spendable})
	case op.kind == "buy":
		a.accepted, a.sequence, a.credit = op.amount, op.sequence, spendable%channelPrice
		return a, channelResult{bought: spendable / channelPrice}
	case op.kind == "read":
		a.accepted, a.sequence, a.credit = op.amount, op.sequence, spendable-op.count*channelPrice
	}
	return a, channelResult{channel: a}
}

func channelModel(deposit int64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return account{deposit: deposit} },
		Step: func(state, input, output any) (bool, any) {
			next, want := state.(account).apply(input.(channelOp))
			return output.(channelResult) == want, next
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
	}
}

// recording contains the operations of several clients and their results. Time is a counter, which
// only orders events.
type recording struct {
	ticks atomic.Int64
	mu    struct {
		sync.Mutex
		operations []porcupine.Operation
	}
}

func (r *recording) do(client int, input any, do func() any) {
	op := porcupine.Operation{ClientId: client, Input: input, Call: r.ticks.Add(1)}
	op.Output = do()
	op.Return = r.ticks.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.operations = append(r.mu.operations, op)
}

// overlaps counts the pairs of concurrent operations.
func (r *recording) overlaps() int {
	n := 0
	for i, a := range r.mu.operations {
		for _, b := range r.mu.operations[:i] {
			if a.Call < b.Return && b.Call < a.Return {
				n++
			}
		}
	}
	return n
}

// counter is a shop's channel that many clients use.
type counter struct {
	id       string
	payments []ledger.Payment // by sequence, minus one
	proofs   map[string]int64 // sequences
	next     atomic.Int64     // payments that were issued
	handles  []*shop
}

// result converts the service's result to the model's terms.
func (c *counter) result(channel ledger.Channel, err error) channelResult {
	var stale *ledger.StaleError
	var funds *ledger.InsufficientFundsError
	switch {
	case errors.As(err, &stale):
		return channelResult{refusal: ledger.ErrStalePayment, stored: c.proofs[string(stale.Stored)]}
	case errors.As(err, &funds):
		return channelResult{refusal: ledger.ErrInsufficientFunds, required: funds.Required, available: funds.Available}
	case errors.Is(err, ledger.ErrChannelClosed):
		return channelResult{refusal: ledger.ErrChannelClosed}
	case err != nil:
		return channelResult{refusal: err}
	}
	return channelResult{channel: account{channel.Accepted, channel.Sequence, channel.Credit, channel.Deposit, !channel.Closed.IsZero()}}
}

// ask performs an operation on a handle.
func (c *counter) ask(t *testing.T, s *shop, op channelOp) channelResult {
	switch op.kind {
	case "buy":
		bought, err := s.Buy(t.Context(), paychan.BuyOptions{Payment: c.payments[op.sequence-1]}, nil)
		if err != nil {
			return c.result(ledger.Channel{}, err)
		}
		return channelResult{bought: bought.Total}
	case "read":
		return c.result(s.PayRead(t.Context(), c.payments[op.sequence-1], op.count, ""))
	case "deposit":
		return c.result(s.Deposit(t.Context(), c.id, op.amount, nil))
	case "close":
		return c.result(s.Close(t.Context(), c.id))
	default:
		return c.result(s.Get(t.Context(), c.id))
	}
}

// draw returns a client's next operation. The last one may be a close.
func (c *counter) draw(random *rand.Rand, last bool) channelOp {
	pay := func(index int64) channelOp {
		p := c.payments[index]
		op := channelOp{kind: "buy", sequence: p.Sequence, amount: p.Amount}
		if random.IntN(2) == 0 {
			op.kind, op.count = "read", 1+random.Int64N(3)
		}
		return op
	}
	switch n := random.IntN(10); {
	case last && n < 3:
		return channelOp{kind: "close"}
	case n < 5:
		return pay(min(c.next.Add(1), int64(len(c.payments))) - 1)
	case n < 7:
		return pay(random.Int64N(min(c.next.Load()+1, int64(len(c.payments)))))
	case n < 8:
		return channelOp{kind: "deposit", amount: 1 + random.Int64N(30)}
	default:
		return channelOp{kind: "get"}
	}
}

// TestChannelIsLinearizable checks that several clients' concurrent operations over two handles
// have results which some sequential execution has too.
// Invariant 20.
func TestChannelIsLinearizable(t *testing.T) {
	const rounds, clients, turns, deposit = 20, 5, 12, 60
	first := newShop(t)
	handles := []*shop{first, first.another(t)}
	payer := newPayer(t, 1)
	overlaps := 0
	for round := range rounds {
		number := int64(round)
		units := int64(deposit)
		opened, err := first.Open(t.Context(), paychan.OpenOptions{PaymentChannelID: &number, Deposit: &units}, nil)
		testenv.OK(t, err)
		c := &counter{id: opened.ID, handles: handles, proofs: map[string]int64{}}
		for i := range uint64(clients * turns) {
			p := first.paid(payer, uint64(round), i+1, 4*(i+1))
			c.payments = append(c.payments, p)
			c.proofs[string(p.Proof)] = p.Sequence
		}
		var history recording
		var wg sync.WaitGroup
		for client := range clients {
			random := rand.New(rand.NewPCG(uint64(round), uint64(client)))
			wg.Go(func() {
				for turn := range turns {
					op := c.draw(random, turn == turns-1)
					history.do(client, op, func() any { return c.ask(t, handles[client%2], op) })
				}
			})
		}
		wg.Wait()
		if !porcupine.CheckOperations(channelModel(deposit), history.mu.operations) {
			t.Errorf("round %d is not linearizable: %+v", round, history.mu.operations)
		}
		overlaps += history.overlaps()
	}
	t.Logf("%d pairs of operations overlapped", overlaps)
	first.audit()
}

// TestChannelCheckerDetectsErrors checks histories with a known verdict.
func TestChannelCheckerDetectsErrors(t *testing.T) {
	read := channelOp{kind: "read", sequence: 1, amount: 6, count: 1}
	accepted := channelResult{channel: account{accepted: 6, sequence: 1, credit: 3, deposit: 60}}
	stale := channelResult{refusal: ledger.ErrStalePayment, stored: 1}
	get := channelOp{kind: "get"}
	fresh := channelResult{channel: account{deposit: 60}}
	for name, c := range map[string]struct {
		history []porcupine.Operation
		want    bool
	}{
		"a replay is stale": {[]porcupine.Operation{
			{Input: read, Output: accepted, Call: 1, Return: 2}, {Input: read, Output: stale, Call: 3, Return: 4},
		}, true},
		"a payment counts twice": {[]porcupine.Operation{
			{Input: read, Output: accepted, Call: 1, Return: 3}, {Input: read, Output: accepted, Call: 2, Return: 4},
		}, false},
		"a concurrent read of a payment": {[]porcupine.Operation{
			{Input: read, Output: accepted, Call: 1, Return: 3}, {Input: get, Output: fresh, Call: 2, Return: 4},
		}, true},
		"a stale read": {[]porcupine.Operation{
			{Input: read, Output: accepted, Call: 1, Return: 2}, {Input: get, Output: fresh, Call: 3, Return: 4},
		}, false},
		"credit is lost": {[]porcupine.Operation{
			{Input: read, Output: accepted, Call: 1, Return: 2},
			{Input: get, Output: channelResult{channel: account{accepted: 6, sequence: 1, deposit: 60}}, Call: 3, Return: 4},
		}, false},
	} {
		if got := porcupine.CheckOperations(channelModel(60), c.history); got != c.want {
			t.Errorf("%s: linearizable %t, want %t", name, got, c.want)
		}
	}
}
