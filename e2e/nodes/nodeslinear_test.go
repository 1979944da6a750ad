package nodes

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"

	"github.com/anishathalye/porcupine"
)

// things are a blob, a session and a channel that all clients use for a while.
type things struct {
	name, session string
	channel       *e2e.Channel
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
	views  []*e2e.Server
	random *rand.Rand
	ticks  *atomic.Int64
	values *atomic.Int64 // number of issued contents
	tags   *sync.Map     // ETags by content
	seen   int           // the content that it read last
}

func (a *linearClient) view() *e2e.Server { return a.views[a.random.IntN(len(a.views))] }

// linearContent returns the body with the given number. Every other one is large enough to become
// an object.
func linearContent(value int) []byte {
	return fmt.Appendf(nil, "%d\n%s", value, strings.Repeat("x", value%2*40_000))
}

// useBlob performs a random operation on the blob.
func (a *linearClient) useBlob(w *things) error {
	q := operation{kind: []string{"get", "get", "put", "put", "create", "replace", "delete", "remove"}[a.random.IntN(8)]}
	var h e2e.Headers
	if q.kind == "replace" || q.kind == "remove" {
		tag, ok := a.tags.Load(a.seen)
		if !ok {
			q.kind = "get"
		} else {
			q.present, h = a.seen, e2e.Headers{"If-Match", tag.(string)}
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
		h = e2e.Headers{"If-None-Match", "*"}
	}
	return w.blob.record(a.ticks, a.number, q, func() (opResult, error) {
		r, err := a.view().Try(method, e2e.BlobTarget("0x1", w.name), body, h...)
		if err := outcome(r, err); err != nil {
			return opResult{}, err
		}
		answer := opResult{status: r.Status}
		switch {
		case method == "GET" && r.Status == 200:
			answer.value = a.valueOf(r)
			a.seen = answer.value
		case method == "PUT" && r.Status == 204:
			a.seen = q.value
			a.tagged(q.value, r)
		}
		return answer, nil
	})
}

// valueOf returns a body's number, or 0 if the body is not complete.
func (a *linearClient) valueOf(r e2e.Response) int {
	number, _, _ := bytes.Cut(r.Body, []byte("\n"))
	value, err := strconv.Atoi(string(number))
	if err != nil || !bytes.Equal(r.Body, linearContent(value)) {
		a.views[0].T.Errorf("a blob of %d bytes is not one that was sent", len(r.Body))
		return 0
	}
	a.tagged(value, r)
	return value
}

// tagged checks that each content has one ETag.
func (a *linearClient) tagged(value int, r e2e.Response) {
	tag := r.Header.Get("ETag")
	if known, _ := a.tags.LoadOrStore(value, tag); known != tag {
		a.views[0].T.Errorf("content %d has the ETags %v and %s", value, known, tag)
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
			r, err := view.Try("GET", "/v1/sessions/"+w.session, nil)
			if err := outcome(r, err); err != nil {
				return opResult{}, err
			}
			return opResult{status: r.Status, value: int(e2e.AsSession(view.T, r).ChunksetsLeft)}, nil
		}
		r, err := view.Try("POST", "/v1/sessions/"+w.session+"/use", nil)
		if err := outcome(r, err); err != nil || r.Status != 200 {
			return opResult{status: r.Status}, err
		}
		left, err := strconv.Atoi(r.Header.Get("Chunksets-Left"))
		if err != nil {
			view.T.Errorf("use: %v: %v", r, err)
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
		target := e2e.Channels + "/" + w.channel.ID
		var r e2e.Response
		var err error
		switch q.kind {
		case "get":
			r, err = view.Try("GET", target, nil)
		case "deposit":
			r, err = view.Try("POST", target+"/deposit", fmt.Appendf(nil, `{"amount":"%d"}`, q.value))
		default:
			payment := w.channel.Payer.Sign(view.T, w.channel.Number, uint64(q.value), uint64(linearUnit*q.value)).Base64()
			w.proofs.Store(payment, q.value)
			r, err = view.Try("POST", "/v1/sessions", e2e.PurchaseBody(view.T, payment, ""))
		}
		if err := outcome(r, err); err != nil {
			return opResult{}, err
		}
		return w.channelResult(view.T, r), nil
	})
}

// channelResult converts a response to the model's terms.
func (w *things) channelResult(t testing.TB, r e2e.Response) opResult {
	answer := opResult{status: r.Status}
	switch r.Status {
	case 409:
		stored, ok := w.proofs.Load(e2e.Member(t, r, "storedMicropayment"))
		if !ok {
			t.Errorf("the stored micropayment is not one of those sent: %v", r)
			return answer
		}
		answer.value = stored.(int)
	case 201:
		answer.value = int(e2e.AsSession(t, r).ChunksetsTotal)
	case 200:
		var state e2e.ChannelState
		r.Decode(t, &state)
		amount := func(text string) int { return int(e2e.Number(t, text)) }
		answer.money = amounts{amount(state.Accepted), amount(state.SequenceNumber), amount(state.Credit), amount(state.Deposit)}
	}
	return answer
}

// TestNodesAreLinearizable has several clients use several nodes concurrently. Meanwhile the test
// kills and restarts one node after another, and the database and the object store crash and
// recover; /readyz must report both. The responses must be possible on a single node that handles
// one request at a time, and background tasks must continue.
// Invariants 20, 87, 88.
func TestNodesAreLinearizable(t *testing.T) {
	t.Parallel()
	checkLinearizability(t, 120)
}

// checkLinearizability sends phase requests before the first fault and after each fault and each
// recovery, ten times as many in all.
func checkLinearizability(t *testing.T, phase int64) {
	t.Helper()
	c := e2e.NewCluster(t, e2e.Options{Dirty: true, Flags: linearFlags})
	c.Start(3)
	views := c.Views(t)
	pays := views[0].Open(views[0].Payer(3), 1000)
	large, small := e2e.Content(1, 100_000), e2e.Content(2, 100)
	views[0].Must(204, "PUT", e2e.BlobTarget("0x1", "large"), large)
	views[0].Must(204, "PUT", e2e.BlobTarget("0x1", "small"), small)
	checkHistories(t, views, 10*phase, phase, math.MaxInt, func(further func()) {
		for i, node := range c.Nodes {
			node.Kill()
			further()
			node.Restart()
			further()
			switch i {
			case 0:
				testenv.OK(t, c.Database.Stop())
				awaitReadyz(t, views, 503)
				testenv.OK(t, c.Database.Start())
			case 1:
				c.Objects.Stop()
				awaitReadyz(t, views, 503)
				for _, view := range views {
					e2e.CheckProblem(t, view.Do("GET", e2e.BlobTarget("0x1", "large"), nil), 503, "")
					view.Holds(e2e.BlobTarget("0x1", "small"), small)
				}
				c.Objects.Start()
			}
			awaitReadyz(t, views, 200)
			further()
			pays.Buy(linearPrice)
			pays.Settled() // by the leader, which may be another one
		}
	})
	views[0].Holds(e2e.BlobTarget("0x1", "large"), large)
}

// linearFlags are the flags of nodes that checkHistories uses.
var linearFlags = []string{"--chunkset-price", fmt.Sprint(linearPrice)}

// checkHistories has several clients send requests while faults happen, and checks that some
// sequential execution gives the same responses. faults is called after the first phase responses;
// further returns when there are phase more. In all there must be total. No client may have more
// than failures requests without a response one after the other.
func checkHistories(t *testing.T, views []*e2e.Server, total, phase int64, failures int, faults func(further func())) {
	t.Helper()
	const clients, roundLength = 6, 120
	rounds := total / roundLength
	seed := e2e.Seed(t)
	all := make([]*things, rounds)
	for i := range all {
		w := &things{name: fmt.Sprint("name ", i), channel: views[0].Open(views[0].Payer(1), linearDeposit)}
		w.session = views[0].Open(views[0].Payer(2), linearBought*linearPrice).Buy(linearBought * linearPrice).SessionID
		all[i] = w
	}
	var answered, ticks, values atomic.Int64
	var tags sync.Map
	var over atomic.Bool
	var load sync.WaitGroup
	for i := range clients {
		a := &linearClient{number: i, views: views, random: rand.New(rand.NewPCG(seed, uint64(i))), ticks: &ticks, values: &values, tags: &tags}
		load.Go(func() {
			for failed := 0; !over.Load(); {
				w := all[min(answered.Load()/roundLength, rounds-1)]
				ask := []func(*things) error{a.useBlob, a.useSession, a.useChannel}[a.random.IntN(3)]
				switch err := ask(w); {
				case err == nil:
					answered.Add(1)
					failed = 0
				case failed == failures:
					t.Errorf("%d requests have failed one after the other: %v", failed+1, err)
					return
				default:
					failed++
				}
			}
		})
	}
	further := func() {
		t.Helper()
		until := answered.Load() + phase
		views[0].Eventually(fmt.Sprintf("%d requests are not answered", phase), func() bool { return answered.Load() >= until })
	}
	further()
	faults(further)
	over.Store(true)
	load.Wait()
	unknown, overlaps, began := 0, 0, time.Now()
	check := func(label string, h *history, model porcupine.Model) {
		t.Helper()
		if got := porcupine.CheckOperationsTimeout(model, h.operations, e2e.Patience); got != porcupine.Ok {
			t.Errorf("the history of %s is %s: %+v", label, got, h.operations)
		}
		unknown, overlaps = unknown+h.unknown, overlaps+h.overlaps()
	}
	for i, w := range all {
		check(fmt.Sprint("blob ", i), &w.blob, step[register](register.Ask).model(0))
		check(fmt.Sprint("session ", i), &w.uses, step[chunksets](chunksets.Ask).model(linearBought))
		check(fmt.Sprint("channel ", i), &w.payments, step[amounts](amounts.Ask).model(amounts{deposit: linearDeposit}))
	}
	t.Logf("%d responses, %d operations with unknown outcome, %d concurrent pairs, checked in %v", answered.Load(), unknown, overlaps, time.Since(began))
	if int64(overlaps) < phase {
		t.Errorf("only %d pairs of operations were concurrent, too few to be meaningful", overlaps)
	}
}
