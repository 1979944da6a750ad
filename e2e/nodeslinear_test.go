package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// things are a blob, a session and a channel that all clients use for a while.
type things struct {
	name, session string
	channel       *channel
	paid          atomic.Int64 // number of issued micropayments
	proofs        sync.Map     // numbers by encoded micropayment

	blob, uses, payments history
}

const (
	linearBought  = 60 // a session's chunksets
	linearDeposit = 80 // a channel's deposit
)

// linearClient is one client. It sends each request to a random node.
type linearClient struct {
	number int
	views  []*server
	random *rand.Rand
	ticks  *atomic.Int64
	values *atomic.Int64 // number of issued contents
	tags   *sync.Map     // ETags by content
	seen   int           // the content that it read last
}

func (a *linearClient) view() *server { return a.views[a.random.IntN(len(a.views))] }

// linearContent returns the body with the given number. Every other one is large enough to become
// an object.
func linearContent(value int) []byte {
	return fmt.Appendf(nil, "%d\n%s", value, strings.Repeat("x", value%2*20_000))
}

// useBlob performs a random operation on the blob.
func (a *linearClient) useBlob(w *things) error {
	q := operation{kind: []string{"get", "get", "put", "put", "create", "replace", "delete", "remove"}[a.random.IntN(8)]}
	var h headers
	if q.kind == "replace" || q.kind == "remove" {
		tag, ok := a.tags.Load(a.seen)
		if !ok {
			q.kind = "get"
		} else {
			q.present, h = a.seen, headers{"If-Match", tag.(string)}
		}
	}
	method, body := "GET", []byte(nil)
	switch q.kind {
	case "delete", "remove":
		method = "DELETE"
	case "put", "create", "replace":
		method, q.value = "PUT", int(a.values.Add(1))
		body = linearContent(q.value)
	}
	if q.kind == "create" {
		h = headers{"If-None-Match", "*"}
	}
	return w.blob.record(a.ticks, a.number, q, func() (opResult, error) {
		r, err := a.view().try(method, blobTarget("0x1", w.name), body, h...)
		if err := outcome(r, err); err != nil {
			return opResult{}, err
		}
		answer := opResult{status: r.status}
		switch {
		case method == "GET" && r.status == 200:
			answer.value = a.valueOf(r)
			a.seen = answer.value
		case method == "PUT" && r.status == 204:
			a.seen = q.value
			a.tagged(q.value, r)
		}
		return answer, nil
	})
}

// valueOf returns a body's number, or 0 if the body is not complete.
func (a *linearClient) valueOf(r response) int {
	number, _, _ := bytes.Cut(r.body, []byte("\n"))
	value, err := strconv.Atoi(string(number))
	if err != nil || !bytes.Equal(r.body, linearContent(value)) {
		a.views[0].t.Errorf("a blob of %d bytes is not one that was sent", len(r.body))
		return 0
	}
	a.tagged(value, r)
	return value
}

// tagged checks that each content has one ETag.
func (a *linearClient) tagged(value int, r response) {
	tag := r.header.Get("ETag")
	if known, _ := a.tags.LoadOrStore(value, tag); known != tag {
		a.views[0].t.Errorf("content %d has the ETags %v and %s", value, known, tag)
	}
}

// useSession performs a random operation on the session.
func (a *linearClient) useSession(w *things) error {
	q := operation{kind: "use"}
	if a.random.IntN(4) == 0 {
		q.kind = "get"
	}
	return w.uses.record(a.ticks, a.number, q, func() (opResult, error) {
		view := a.view()
		if q.kind == "get" {
			r, err := view.try("GET", "/v1/sessions/"+w.session, nil)
			if err := outcome(r, err); err != nil {
				return opResult{}, err
			}
			return opResult{status: r.status, value: int(asSession(view.t, r).ChunksetsLeft)}, nil
		}
		r, err := view.try("POST", "/v1/sessions/"+w.session+"/use", nil)
		if err := outcome(r, err); err != nil || r.status != 200 {
			return opResult{status: r.status}, err
		}
		left, err := strconv.Atoi(r.header.Get("Chunksets-Left"))
		if err != nil {
			view.t.Errorf("use: %v: %v", r, err)
		}
		return opResult{status: 200, value: left}, nil
	})
}

// useChannel performs a random operation on the channel. Half of its payments may be stale.
func (a *linearClient) useChannel(w *things) error {
	q := operation{kind: "pay"}
	switch n := a.random.IntN(10); {
	case n < 4:
		q.value = int(w.paid.Add(1))
	case n < 7:
		q.value = 1 + a.random.IntN(int(w.paid.Load())+1)
	case n < 8:
		q.kind, q.value = "deposit", 1+a.random.IntN(30)
	default:
		q.kind = "get"
	}
	return w.payments.record(a.ticks, a.number, q, func() (opResult, error) {
		view := a.view()
		target := channels + "/" + w.channel.id
		var r response
		var err error
		switch q.kind {
		case "get":
			r, err = view.try("GET", target, nil)
		case "deposit":
			r, err = view.try("POST", target+"/deposit", fmt.Appendf(nil, `{"amount":"%d"}`, q.value))
		default:
			payment := w.channel.payer.sign(view.t, w.channel.number, uint64(q.value), uint64(linearUnit*q.value)).Base64()
			w.proofs.Store(payment, q.value)
			r, err = view.try("POST", "/v1/sessions", purchaseBody(view.t, payment, ""))
		}
		if err := outcome(r, err); err != nil {
			return opResult{}, err
		}
		return w.channelResult(view.t, r), nil
	})
}

// channelResult converts a response to the model's terms.
func (w *things) channelResult(t testing.TB, r response) opResult {
	answer := opResult{status: r.status}
	switch r.status {
	case 409:
		stored, ok := w.proofs.Load(member(t, r, "storedMicropayment"))
		if !ok {
			t.Errorf("the stored micropayment is not one of those sent: %v", r)
			return answer
		}
		answer.value = stored.(int)
	case 201:
		answer.value = int(asSession(t, r).ChunksetsTotal)
	case 200:
		var state channelState
		r.decode(t, &state)
		amount := func(text string) int { return int(number(t, text)) }
		answer.money = amounts{amount(state.Accepted), amount(state.SequenceNumber), amount(state.Credit), amount(state.Deposit)}
	}
	return answer
}

// TestNodesAreLinearizable has several clients use several nodes concurrently. Meanwhile the test
// kills and restarts one node after another, and the database and the object store crash and
// recover. Some sequential execution on a single node must give the same responses.
func TestNodesAreLinearizable(t *testing.T) {
	t.Parallel()
	const clients, rounds, roundLength, phase = 6, 24, 120, 360
	seed := seed(t)
	c := newCluster(t, options{dirty: true, flags: []string{"--chunkset-price", fmt.Sprint(linearPrice)}})
	c.start(3)
	views := c.views(t)
	all := make([]*things, rounds)
	for i := range all {
		w := &things{name: fmt.Sprint("name ", i), channel: views[0].open(views[0].payer(1), linearDeposit)}
		w.session = views[0].open(views[0].payer(2), linearBought*linearPrice).buy(linearBought * linearPrice).SessionID
		all[i] = w
	}
	var answered, ticks, values atomic.Int64
	var tags sync.Map
	var over atomic.Bool
	var load sync.WaitGroup
	for i := range clients {
		a := &linearClient{number: i, views: views, random: rand.New(rand.NewPCG(seed, uint64(i))), ticks: &ticks, values: &values, tags: &tags}
		load.Go(func() {
			for !over.Load() {
				w := all[min(answered.Load()/roundLength, rounds-1)]
				ask := []func(*things) error{a.useBlob, a.useSession, a.useChannel}[a.random.IntN(3)]
				if ask(w) == nil {
					answered.Add(1)
				}
			}
		})
	}
	further := func() {
		t.Helper()
		until := answered.Load() + phase
		views[0].eventually("no request is answered", func() bool { return answered.Load() >= until })
	}
	further()
	for i, node := range c.nodes {
		node.kill()
		further()
		node.restart()
		further()
		switch i {
		case 0:
			if err := errors.Join(c.database.Stop(), c.database.Start()); err != nil {
				t.Fatal(err)
			}
		case 1:
			c.objects.Stop()
			c.objects.Start()
		}
		further()
	}
	over.Store(true)
	load.Wait()
	unknown, overlaps, began := 0, 0, time.Now()
	check := func(what string, h *history, model porcupine.Model) {
		t.Helper()
		if got := porcupine.CheckOperationsTimeout(model, h.operations, patience); got != porcupine.Ok {
			t.Errorf("the history of %s is %s: %+v", what, got, h.operations)
		}
		unknown, overlaps = unknown+h.unknown, overlaps+h.overlaps()
	}
	for i, w := range all {
		check(fmt.Sprint("blob ", i), &w.blob, step[register](register.ask).model(0))
		check(fmt.Sprint("session ", i), &w.uses, step[chunksets](chunksets.ask).model(linearBought))
		check(fmt.Sprint("channel ", i), &w.payments, step[amounts](amounts.ask).model(amounts{deposit: linearDeposit}))
	}
	t.Logf("%d responses, %d operations with unknown outcome, %d concurrent pairs, checked in %v", answered.Load(), unknown, overlaps, time.Since(began))
	if overlaps < phase {
		t.Errorf("only %d pairs of operations were concurrent, too few to be meaningful", overlaps)
	}
}
