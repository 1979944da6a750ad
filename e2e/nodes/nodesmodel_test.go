package nodes

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"
)

// operation is a client's call on a blob, a session or a channel.
type operation struct {
	kind    string // put, create, replace, delete, remove or get; use or get; pay, deposit or get
	value   int    // a put's content, a deposit's amount, a payment's number
	present int    // the content that a replace or a remove requires
}

// opResult is an operation's result: a status and its values.
type opResult struct {
	status int
	// A blob's content, a session's remaining chunksets, those that a payment bought, or the number
	// that a stale payment's refusal names.
	value int
	money amounts // a channel's amounts
}

// noResult is the result if an operation has no response. It returns after all that have one, so it
// may take effect at any time, or never.
var noResult = opResult{}

// step specifies an operation sequentially: its effect on a state, and its result.
type step[State any] func(State, operation) (State, opResult)

func (f step[State]) model(initial State) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return initial },
		Step: func(state, input, output any) (bool, any) {
			next, want := f(state.(State), input.(operation))
			return output == want || output == noResult, next
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
	}
}

// register is a name's content, or 0 if there is no blob.
type register int

func (r register) Ask(q operation) (register, opResult) {
	switch q.kind {
	case "create":
		if r != 0 {
			return r, opResult{status: 412}
		}
		return register(q.value), opResult{status: 204}
	case "replace", "remove":
		if int(r) != q.present {
			return r, opResult{status: 412}
		}
		return register(q.value), opResult{status: 204}
	case "put", "delete":
		return register(q.value), opResult{status: 204}
	case "get":
		if r == 0 {
			return r, opResult{status: 404}
		}
		return r, opResult{status: 200, value: int(r)}
	}
	panic(q.kind)
}

// chunksets is the number of chunksets that a session has left.
type chunksets int

func (c chunksets) Ask(q operation) (chunksets, opResult) {
	switch {
	case q.kind == "use" && c == 0:
		return c, opResult{status: 402}
	case q.kind == "use":
		c--
	}
	return c, opResult{status: 200, value: int(c)}
}

// amounts is a channel's state.
type amounts struct{ accepted, sequence, credit, deposit int }

// A channel's payments in the histories: the first promises linearUnit, and each further one
// linearUnit more than the one before.
const (
	linearPrice = 3
	linearUnit  = 4
)

func (a amounts) Ask(q operation) (amounts, opResult) {
	switch q.kind {
	case "get":
		return a, opResult{status: 200, money: a}
	case "deposit":
		a.deposit += q.value
		return a, opResult{status: 200, money: a}
	}
	amount := linearUnit * q.value
	if q.value <= a.sequence {
		return a, opResult{status: 409, value: a.sequence}
	}
	if amount > a.deposit {
		return a, opResult{status: 402}
	}
	spendable := amount - a.accepted + a.credit
	a.accepted, a.sequence, a.credit = amount, q.value, spendable%linearPrice
	return a, opResult{status: 201, value: spendable / linearPrice}
}

// history contains the operations of several clients on one thing, and their results. Time is a
// counter, which only orders events.
type history struct {
	mu         sync.Mutex
	operations []porcupine.Operation
	unknown    int
}

// record performs an operation and records its result. Operations without an effect are not
// recorded.
func (h *history) record(ticks *atomic.Int64, client int, q operation, ask func() (opResult, error)) error {
	op := porcupine.Operation{ClientId: client, Input: q, Call: ticks.Add(1)}
	answer, err := ask()
	op.Output, op.Return = answer, ticks.Add(1)
	if errors.Is(err, errNothingHappened) || err != nil && q.kind == "get" {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		op.Output, op.Return = noResult, math.MaxInt64
		h.unknown++
	}
	h.operations = append(h.operations, op)
	return err
}

// overlaps counts the pairs of concurrent operations.
func (h *history) overlaps() int {
	n := 0
	for i, a := range h.operations {
		for _, b := range h.operations[:i] {
			if a.Call < b.Return && b.Call < a.Return {
				n++
			}
		}
	}
	return n
}

// TestNodesCheckerDetectsErrors checks histories with a known verdict.
// Invariant 87.
func TestNodesCheckerDetectsErrors(t *testing.T) {
	put, get := func(value int) operation { return operation{kind: "put", value: value} }, operation{kind: "get"}
	stored, absent := opResult{status: 204}, opResult{status: 404}
	holds := func(value int) opResult { return opResult{status: 200, value: value} }
	did := func(call, end int64, q operation, answer opResult) porcupine.Operation {
		return porcupine.Operation{Input: q, Output: answer, Call: call, Return: end}
	}
	blob, session := step[register](register.Ask).model(0), step[chunksets](chunksets.Ask).model(2)
	payments := step[amounts](amounts.Ask).model(amounts{deposit: 80})
	use, pay := operation{kind: "use"}, operation{kind: "pay", value: 1}
	for name, c := range map[string]struct {
		model   porcupine.Model
		history []porcupine.Operation
		want    bool
	}{
		"an acknowledged write is lost": {blob, []porcupine.Operation{did(1, 2, put(1), stored), did(3, 4, get, absent)}, false},
		"a stale read":                  {blob, []porcupine.Operation{did(1, 2, put(1), stored), did(3, 4, put(2), stored), did(5, 6, get, holds(1))}, false},
		"a write without a response has no effect": {blob, []porcupine.Operation{
			did(1, math.MaxInt64, put(1), noResult), did(3, 4, get, absent)}, true},
		"a write without a response takes effect late": {blob, []porcupine.Operation{
			did(1, math.MaxInt64, put(1), noResult), did(3, 4, get, absent), did(5, 6, get, holds(1))}, true},
		"a write without a response is undone": {blob, []porcupine.Operation{
			did(1, math.MaxInt64, put(1), noResult), did(3, 4, get, holds(1)), did(5, 6, get, absent)}, false},
		"two concurrent creates": {blob, []porcupine.Operation{
			did(1, 3, operation{kind: "create", value: 1}, stored), did(2, 4, operation{kind: "create", value: 2}, stored)}, false},
		"a replace of a missing blob": {blob, []porcupine.Operation{
			did(1, 2, put(1), stored), did(3, 4, operation{kind: "replace", value: 3, present: 2}, stored)}, false},
		"the last chunkset is used twice": {session, []porcupine.Operation{
			did(1, 2, use, holds(1)), did(3, 5, use, holds(0)), did(4, 6, use, holds(0))}, false},
		"a use without a response counts": {session, []porcupine.Operation{
			did(1, math.MaxInt64, use, noResult), did(2, 3, use, holds(0)), did(4, 5, use, opResult{status: 402})}, true},
		"a use counts twice": {session, []porcupine.Operation{did(1, 2, use, holds(1)), did(3, 4, get, holds(0))}, false},
		"a payment counts twice": {payments, []porcupine.Operation{
			did(1, 3, pay, opResult{status: 201, value: 1}), did(2, 4, pay, opResult{status: 201, value: 1})}, false},
		"a repeated payment without a response is stale": {payments, []porcupine.Operation{
			did(1, math.MaxInt64, pay, noResult), did(2, 3, pay, opResult{status: 409, value: 1})}, true},
		"credit is lost": {payments, []porcupine.Operation{did(1, 2, pay, opResult{status: 201, value: 1}),
			did(3, 4, get, opResult{status: 200, money: amounts{accepted: 4, sequence: 1, deposit: 80}})}, false},
	} {
		if got := porcupine.CheckOperations(c.model, c.history); got != c.want {
			t.Errorf("%s: linearizable %t, want %t", name, got, c.want)
		}
	}
}
