package session_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"

	"sluice/database"
	"sluice/ledger"
	"sluice/session"
)

// operation is a client's operation on a session.
type operation struct {
	kind    string // use, return or get
	n       int64
	request string // a return's id, or a use's idempotency key
	again   bool   // a return that was made before
}

// result is an operation's result.
type result struct {
	refusal error // the sentinel
	count   count
}

// count is a session's state.
type count struct{ left, used int64 }

// apply is an operation's sequential specification. Clients return no more than they used.
func (c count) apply(op operation) (count, result) {
	switch {
	case op.kind == "use" && op.n > c.left:
		return c, result{ledger.ErrExhausted, c}
	case op.kind == "use":
		c = count{c.left - op.n, c.used + op.n}
	case op.kind == "return" && !op.again:
		c = count{c.left + op.n, c.used - op.n}
	}
	return c, result{nil, c}
}

func sessionModel(total int64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return count{left: total} },
		Step: func(state, input, output any) (bool, any) {
			next, want := state.(count).apply(input.(operation))
			return output.(result) == want, next
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
	}
}

// client uses a session and returns some chunksets.
type client struct {
	service *session.Service
	id      string // the session's
	name    string
	used    int64
	names   int
	last    operation // the last return
}

// draw returns the next operation.
func (c *client) draw(random *rand.Rand) operation {
	c.names++
	name := fmt.Sprint(c.name, " ", c.names)
	switch n := random.IntN(10); {
	case n < 5:
		op := operation{kind: "use", n: 1 + random.Int64N(4)}
		if n == 0 {
			op.request = name
		}
		return op
	case n < 7 && c.used > 0:
		c.last = operation{kind: "return", n: 1 + random.Int64N(c.used), request: name}
		return c.last
	case n < 8 && c.last.kind != "":
		again := c.last
		again.again = true
		return again
	default:
		return operation{kind: "get"}
	}
}

// ask performs an operation and counts the chunksets used.
func (c *client) ask(t *testing.T, op operation) result {
	var got ledger.Session
	var err error
	switch op.kind {
	case "use":
		var idem *database.Idempotency
		if op.request != "" {
			idem = &database.Idempotency{Scope: "use", Key: op.request}
		}
		if got, err = c.service.Use(t.Context(), c.id, op.n, idem); err == nil {
			c.used += op.n
		}
	case "return":
		if got, err = c.service.Return(t.Context(), c.id, op.n, op.request); err == nil && !op.again {
			c.used -= op.n
		}
	default:
		got, err = c.service.Get(t.Context(), c.id)
	}
	if errors.Is(err, ledger.ErrExhausted) {
		err = ledger.ErrExhausted // without the errors that wrap it
	}
	return result{err, count{got.Left, got.Used}}
}

// TestSessionIsLinearizable checks that several clients' concurrent operations over two handles
// have results which some sequential execution has too.
// Invariant 18.
func TestSessionIsLinearizable(t *testing.T) {
	const rounds, clients, turns, total = 20, 5, 16, 40
	services, _ := newServices(t, 2, session.Options{Grant: total})
	overlaps := 0
	for round := range rounds {
		made := grant(t, services[0])
		var ticks atomic.Int64 // a counter, which only orders events
		histories := make([][]porcupine.Operation, clients)
		var wg sync.WaitGroup
		for i := range clients {
			c := &client{service: services[i%2], id: made.ID, name: fmt.Sprint("client ", round, " ", i)}
			random := rand.New(rand.NewPCG(uint64(round), uint64(i)))
			wg.Go(func() {
				for range turns {
					op := porcupine.Operation{ClientId: i, Input: c.draw(random), Call: ticks.Add(1)}
					op.Output = c.ask(t, op.Input.(operation))
					op.Return = ticks.Add(1)
					histories[i] = append(histories[i], op)
				}
			})
		}
		wg.Wait()
		var history []porcupine.Operation
		for _, h := range histories {
			history = append(history, h...)
		}
		if !porcupine.CheckOperations(sessionModel(total), history) {
			t.Errorf("round %d is not linearizable: %+v", round, history)
		}
		overlaps += overlapping(history)
	}
	t.Logf("%d pairs of operations overlapped", overlaps)
}

// overlapping counts the pairs of concurrent operations.
func overlapping(history []porcupine.Operation) int {
	n := 0
	for i, a := range history {
		for _, b := range history[:i] {
			if a.Call < b.Return && b.Call < a.Return {
				n++
			}
		}
	}
	return n
}

// TestCheckerDetectsErrors checks histories with a known verdict.
func TestCheckerDetectsErrors(t *testing.T) {
	use, get := operation{kind: "use", n: 1}, operation{kind: "get"}
	giveBack := operation{kind: "return", n: 1, request: "r"}
	again := operation{kind: "return", n: 1, request: "r", again: true}
	left := func(n int64) result { return result{nil, count{n, 2 - n}} }
	for name, c := range map[string]struct {
		history []porcupine.Operation
		want    bool
	}{
		"two concurrent uses": {[]porcupine.Operation{
			{Input: use, Output: left(0), Call: 1, Return: 3}, {Input: use, Output: left(1), Call: 2, Return: 4},
		}, true},
		"the last chunkset is used twice": {[]porcupine.Operation{
			{Input: use, Output: left(1), Call: 1, Return: 2},
			{Input: use, Output: left(0), Call: 3, Return: 5}, {Input: use, Output: left(0), Call: 4, Return: 6},
		}, false},
		"an order that contradicts the times": {[]porcupine.Operation{
			{Input: use, Output: left(0), Call: 1, Return: 2}, {Input: use, Output: left(1), Call: 3, Return: 4},
		}, false},
		"a stale read": {[]porcupine.Operation{
			{Input: use, Output: left(1), Call: 1, Return: 2}, {Input: get, Output: left(2), Call: 3, Return: 4},
		}, false},
		"exhausted while some are left": {[]porcupine.Operation{
			{Input: use, Output: result{ledger.ErrExhausted, count{2, 0}}, Call: 1, Return: 2},
		}, false},
		"a return counts once": {[]porcupine.Operation{
			{Input: use, Output: left(1), Call: 1, Return: 2},
			{Input: giveBack, Output: left(2), Call: 3, Return: 4}, {Input: again, Output: left(2), Call: 5, Return: 6},
		}, true},
		"a return counts twice": {[]porcupine.Operation{
			{Input: use, Output: left(1), Call: 1, Return: 2}, {Input: use, Output: left(0), Call: 3, Return: 4},
			{Input: giveBack, Output: left(1), Call: 5, Return: 6}, {Input: again, Output: left(2), Call: 7, Return: 8},
		}, false},
	} {
		if got := porcupine.CheckOperations(sessionModel(2), c.history); got != c.want {
			t.Errorf("%s: linearizable %t, want %t", name, got, c.want)
		}
	}
}
