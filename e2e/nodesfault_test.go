package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"sluice/internal/testenv"
)

// How a request may fail while the stores stop and start.
var (
	errNothingHappened = errors.New("nothing happened")
	errMayHaveHappened = errors.New("it may have happened")
)

// outcome reports what a failed request means: whether it may have had an effect. It returns nil
// for every response that the caller must judge. It takes a 503 with any other code than
// outcome_unknown to mean that nothing happened, so the tests verify this promise.
func outcome(r response, err error) error {
	var p problem
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: %w", errNothingHappened, err)
	case err != nil:
		return fmt.Errorf("%w: %w", errMayHaveHappened, err)
	case r.status == http.StatusBadGateway || r.status == http.StatusGatewayTimeout:
		return fmt.Errorf("%w: %v", errMayHaveHappened, r) // a load balancer responds so
	case r.status != http.StatusServiceUnavailable:
		return nil
	case json.Unmarshal(r.body, &p) == nil && p.Code != nil && *p.Code != "outcome_unknown":
		return fmt.Errorf("%w: %v", errNothingHappened, r)
	default:
		return fmt.Errorf("%w: %v", errMayHaveHappened, r)
	}
}

// load consists of writers and users of sessions that continue after failures. Each knows what must
// be stored in the end.
type load struct {
	t        testing.TB
	views    []*server // each request goes to a random one
	attempts int       // per request; if there are several, the last one must succeed
	writers  []*writer
	counters []*counter
	over     atomic.Bool
	done     sync.WaitGroup

	acknowledged, retried, failed atomic.Int64
}

// newLoad creates a load and the sessions that it uses.
func newLoad(t testing.TB, views []*server, attempts int) *load {
	t.Helper()
	seed := seed(t)
	l := &load{t: t, views: views, attempts: attempts}
	for i := range crashWriters {
		l.writers = append(l.writers, &writer{
			account: fmt.Sprint("writer-", i),
			random:  rand.New(rand.NewPCG(seed, uint64(i))),
			names:   map[string]*expectation{},
		})
	}
	for range 2 {
		l.counters = append(l.counters, &counter{id: views[0].session()})
	}
	return l
}

// start starts all of them.
func (l *load) start() {
	for _, w := range l.writers {
		l.done.Go(func() { l.write(w) })
	}
	for i, c := range l.counters {
		l.done.Go(func() { l.use(c, rand.New(rand.NewPCG(uint64(i), 1))) })
	}
}

// further waits until the nodes have acknowledged as many requests more.
func (l *load) further(requests int64) {
	l.t.Helper()
	until := l.acknowledged.Load() + requests
	l.views[0].eventually("the load makes no progress", func() bool { return l.acknowledged.Load() >= until || l.t.Failed() })
}

// verify stops the load and compares the state on some nodes with the expected one.
func (l *load) verify(views []*server) {
	l.t.Helper()
	l.over.Store(true)
	l.done.Wait()
	for i, w := range l.writers {
		w.verify(views[i%len(views)])
	}
	for _, view := range views {
		for _, c := range l.counters {
			c.verify(view)
		}
	}
	l.t.Logf("%d requests were acknowledged, %d sent again, %d failed", l.acknowledged.Load(), l.retried.Load(), l.failed.Load())
}

// ask sends a request to one node, and to another one if it fails.
func (l *load) ask(random *rand.Rand, status int, method, target string, body []byte, h ...string) (r response, err error) {
	for attempt := range l.attempts {
		if attempt > 0 {
			l.retried.Add(1)
		}
		r, err = l.views[random.IntN(len(l.views))].try(method, target, body, h...)
		if err = outcome(r, err); err == nil {
			break
		}
	}
	switch {
	case err == nil && r.status == status:
		l.acknowledged.Add(1)
	case err == nil:
		l.t.Errorf("%s: %v, want %d", method, r, status)
		l.over.Store(true)
		err = errMayHaveHappened
	case l.attempts > 1:
		l.t.Errorf("%s failed %d times: %v", method, l.attempts, err)
		l.over.Store(true)
	default:
		l.failed.Add(1)
	}
	return r, err
}

// write stores and deletes blobs, and reads back what was acknowledged. It leaves a name in an
// unknown state alone until the load ends.
func (l *load) write(w *writer) {
	for turn := 0; !l.over.Load(); turn++ {
		name := fmt.Sprint("name ", turn%crashNames)
		for g := 0; w.names[name] != nil && w.names[name].inFlight != nil; g++ {
			name = fmt.Sprint("name ", turn%crashNames, " ", g)
		}
		if w.names[name] == nil {
			w.names[name] = &expectation{}
		}
		var next state
		var err error
		switch w.random.IntN(10) {
		case 0, 1:
			w.names[name].inFlight = &next
			_, err = l.ask(w.random, 204, "DELETE", blobTarget(w.account, name), nil)
		case 2, 3, 4:
			next, err = l.upload(w, name)
		default:
			data := w.content()
			next = state{true, sha256.Sum256(data)}
			w.names[name].inFlight = &next
			_, err = l.ask(w.random, 204, "PUT", blobTarget(w.account, name), data)
		}
		if errors.Is(err, errNothingHappened) {
			w.names[name].inFlight, w.names[name].uploadID = nil, ""
		}
		if err == nil {
			*w.names[name] = expectation{acknowledged: next}
			l.readBack(w, name)
		}
	}
}

// upload stores a blob in parts, each sent to a random node.
func (l *load) upload(w *writer, name string) (state, error) {
	data := w.content()
	partSize := max(1, len(data)/(1+w.random.IntN(4)))
	body := fmt.Appendf(nil, `{"rawAccount":%q,"rawBlobName":%q,"rawPartSize":%d}`, w.account, name, partSize)
	r, err := l.ask(w.random, 200, "POST", "/v1/multipart-uploads", body)
	if err != nil {
		return state{}, fmt.Errorf("%w: %w", errNothingHappened, err) // the blob is unchanged
	}
	var begun struct{ UploadID string }
	if err := json.Unmarshal(r.body, &begun); err != nil {
		l.t.Errorf("begin: %v: %v", r, err)
	}
	for i := 0; i*partSize < len(data); i++ {
		if _, err := l.ask(w.random, 200, "PUT", partTarget(begun.UploadID, i), data[i*partSize:min(len(data), (i+1)*partSize)]); err != nil {
			return state{}, fmt.Errorf("%w: %w", errNothingHappened, err)
		}
	}
	next := state{true, sha256.Sum256(data)}
	w.names[name].inFlight, w.names[name].uploadID = &next, begun.UploadID
	_, err = l.ask(w.random, 200, "POST", "/v1/multipart-uploads/"+begun.UploadID+"/complete", nil)
	return next, err
}

// readBack reads what was just acknowledged on a random node.
func (l *load) readBack(w *writer, name string) {
	want := w.names[name].acknowledged
	status := http.StatusOK
	if !want.exists {
		status = http.StatusNotFound
	}
	r, err := l.ask(w.random, status, "GET", blobTarget(w.account, name), nil)
	if err == nil && want.exists && sha256.Sum256(r.body) != want.sum {
		l.t.Errorf("%s/%s: %d bytes of another content than the acknowledged one", w.account, name, len(r.body))
	}
}

// use uses a session. Only a use that may be repeated has a key: the HTTP client repeats a request
// with a key by itself, and then reports the last attempt only.
func (l *load) use(c *counter, random *rand.Rand) {
	for c.issued.Load() < 1000 && !l.over.Load() {
		var h headers
		if l.attempts > 1 {
			h = headers{"Idempotency-Key", fmt.Sprint(random.Uint64())}
		}
		c.issued.Add(1)
		_, err := l.ask(random, 200, "POST", "/v1/sessions/"+c.id+"/use", nil, h...)
		switch {
		case err == nil:
			c.acknowledged.Add(1)
		case errors.Is(err, errNothingHappened):
			c.issued.Add(-1)
		}
	}
}

// TestRollingRestart restarts node after node behind a load balancer with the documented
// configuration. No request may fail for a client that retries once. A node counts as back when the
// balancer sends it requests again. That is later than its /readyz reports 200.
func TestRollingRestart(t *testing.T) {
	testenv.Require(t, testenv.Nginx)
	t.Parallel()
	c := newCluster(t, options{flags: []string{"--base-path", hostedBase, "--drain-wait", "1s"}})
	c.start(3)
	l := newLoad(t, []*server{c.balanced(t)}, 2)
	l.start()
	for _, node := range c.nodes {
		l.further(150)
		node.stop()
		node.restart()
		node.eventually("the balancer does not use the node", func() bool { return strings.Contains(node.log.String(), "route=/v1/blobs/") })
	}
	l.further(150)
	l.verify(l.views)
	for _, used := range l.counters {
		if used.issued.Load() != used.acknowledged.Load() || used.used != used.acknowledged.Load() {
			t.Errorf("%d uses acknowledged of %d, %d counted", used.acknowledged.Load(), used.issued.Load(), used.used)
		}
	}
}

// TestStoresStopAndStart stops the database, as a crash would, and then the object store, under
// load. /readyz must report each failure and each recovery, no acknowledged write may be lost, and
// recovery must need no intervention.
func TestStoresStopAndStart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{})
	c.start(3)
	views := c.views(t)
	pays := views[0].open(views[0].payer(1), 1000)
	l := newLoad(t, views, 1)
	l.start()
	readyz := func(status int) {
		t.Helper()
		for i, view := range views {
			view.eventually(fmt.Sprintf("/readyz of node %d is not %d", i, status), func() bool {
				r := view.do("GET", "/readyz", nil)
				if r.status == 503 {
					checkProblem(t, r, 503, "not_ready")
				}
				return r.status == status
			})
		}
	}
	l.further(150)
	if err := c.database.Stop(); err != nil {
		t.Fatal(err)
	}
	readyz(503)
	if err := c.database.Start(); err != nil {
		t.Fatal(err)
	}
	readyz(200)
	l.further(150)
	large, small := content(1, 100_000), content(2, 100)
	views[0].must(204, "PUT", blobTarget("0x1", "large"), large)
	views[0].must(204, "PUT", blobTarget("0x1", "small"), small)
	c.objects.Stop()
	readyz(503)
	for _, view := range views {
		checkProblem(t, view.do("GET", blobTarget("0x1", "large"), nil), 503, "")
		if r := view.must(200, "GET", blobTarget("0x1", "small"), nil); !bytes.Equal(r.body, small) {
			t.Errorf("without the object store a small blob is %v", r)
		}
	}
	c.objects.Start()
	readyz(200)
	if r := views[0].must(200, "GET", blobTarget("0x1", "large"), nil); !bytes.Equal(r.body, large) {
		t.Errorf("after the object store is back a blob has %d bytes of another content", len(r.body))
	}
	l.further(150)
	l.verify(views)
	pays.buy(10)
	pays.settled() // background tasks continue too
}

// TestKilledNode kills the leader under load. No acknowledged write may be lost, and another node
// must become the leader.
func TestKilledNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{dirty: true})
	c.start(1) // the only node, so it becomes the leader
	pays := c.nodes[0].open(c.nodes[0].payer(1), 1000)
	pays.buy(10)
	pays.settled()
	c.start(2)
	views := c.views(t)
	l := newLoad(t, views, 1)
	l.start()
	l.further(150)
	c.nodes[0].kill()
	l.further(150)
	l.verify(views[1:])
	if l.failed.Load() == 0 {
		t.Error("the kill interrupted no request")
	}
	pays.s = views[1]
	pays.buy(10)
	pays.settled()
	c.nodes[0].restart()
	for _, w := range l.writers {
		w.verify(views[0])
	}
	for i, node := range c.nodes {
		if text := node.log.String(); strings.Contains(text, "background task failed") {
			t.Errorf("node %d reports a failed task:\n%s", i, tail(text))
		}
	}
}
