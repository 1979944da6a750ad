package nodes

import (
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

	"sluice/e2e"
	"sluice/test/testenv"
)

// How a request may fail while the stores stop and start.
var (
	errNothingHappened = errors.New("nothing happened")
	errMayHaveHappened = errors.New("it may have happened")
)

// outcome reports whether a failed request may have had an effect. It returns nil for every
// response that the caller must judge. It takes a 503 with any other code than outcome_unknown to
// mean that nothing happened, so the tests verify this promise.
func outcome(r e2e.Response, err error) error {
	var p e2e.Problem
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: %w", errNothingHappened, err)
	case err != nil:
		return fmt.Errorf("%w: %w", errMayHaveHappened, err)
	case r.Status == http.StatusBadGateway || r.Status == http.StatusGatewayTimeout:
		return fmt.Errorf("%w: %v", errMayHaveHappened, r) // a load balancer responds so
	case r.Status != http.StatusServiceUnavailable:
		return nil
	case json.Unmarshal(r.Body, &p) == nil && p.Code != nil && *p.Code != "outcome_unknown":
		return fmt.Errorf("%w: %v", errNothingHappened, r)
	default:
		return fmt.Errorf("%w: %v", errMayHaveHappened, r)
	}
}

// load consists of writers and users of sessions that continue after failures. Each knows the state
// that must be stored in the end.
type load struct {
	t        testing.TB
	views    []*e2e.Server // each request goes to a random one
	attempts int           // per request; if there are several, the last one must succeed
	writers  []*e2e.Writer
	counters []*e2e.Counter
	over     atomic.Bool
	done     sync.WaitGroup

	acknowledged, retried, failed atomic.Int64
}

// newLoad creates a load and the sessions that it uses.
func newLoad(t testing.TB, views []*e2e.Server, attempts int) *load {
	t.Helper()
	seed := e2e.Seed(t)
	l := &load{t: t, views: views, attempts: attempts}
	for i := range e2e.CrashWriters {
		l.writers = append(l.writers, &e2e.Writer{
			Account: fmt.Sprint("writer-", i),
			Random:  rand.New(rand.NewPCG(seed, uint64(i))),
			Names:   map[string]*e2e.Expectation{},
		})
	}
	for range 2 {
		l.counters = append(l.counters, &e2e.Counter{ID: views[0].Session()})
	}
	return l
}

// Start starts all of them.
func (l *load) Start() {
	for _, w := range l.writers {
		l.done.Go(func() { l.Write(w) })
	}
	for i, c := range l.counters {
		l.done.Go(func() { l.Use(c, rand.New(rand.NewPCG(uint64(i), 1))) })
	}
}

// someRequests is how many requests a node must acknowledge between two events of a test.
const someRequests = 60

// further waits until the nodes have acknowledged as many requests more.
func (l *load) further(requests int64) {
	l.t.Helper()
	until := l.acknowledged.Load() + requests
	l.views[0].Eventually("the load makes no progress", func() bool { return l.acknowledged.Load() >= until || l.t.Failed() })
}

// Verify stops the load and compares the state on some nodes with the expected one.
func (l *load) Verify(views []*e2e.Server) {
	l.t.Helper()
	l.over.Store(true)
	l.done.Wait()
	for i, w := range l.writers {
		w.Verify(views[i%len(views)])
	}
	for _, view := range views {
		for _, c := range l.counters {
			c.Verify(view)
		}
	}
	l.t.Logf("%d requests were acknowledged, %d sent again, %d failed", l.acknowledged.Load(), l.retried.Load(), l.failed.Load())
}

// restartEach restarts node after node while the load runs, and verifies the load. A node counts as
// back when the balancer sends it requests again. That is later than its /readyz reports 200.
func (l *load) restartEach(nodes []*e2e.Server) {
	l.t.Helper()
	for _, node := range nodes {
		l.further(someRequests)
		node.Stop()
		node.Restart()
		node.Eventually("the balancer does not use the node", func() bool { return strings.Contains(node.Log.String(), "route=/v1/blobs/") })
	}
	l.further(someRequests)
	l.Verify(l.views)
}

// Ask sends a request to one node, and to another if it fails.
func (l *load) Ask(random *rand.Rand, status int, method, target string, body []byte, h ...string) (r e2e.Response, err error) {
	for attempt := range l.attempts {
		if attempt > 0 {
			l.retried.Add(1)
		}
		r, err = l.views[random.IntN(len(l.views))].Try(method, target, body, h...)
		if err = outcome(r, err); err == nil {
			break
		}
	}
	switch {
	case err == nil && r.Status == status:
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

// Write stores and deletes blobs, and reads back acknowledged ones. It leaves a name in an unknown
// state alone until the load ends.
func (l *load) Write(w *e2e.Writer) {
	for turn := 0; !l.over.Load(); turn++ {
		name := fmt.Sprint("name ", turn%e2e.CrashNames)
		for g := 0; w.Names[name] != nil && w.Names[name].InFlight != nil; g++ {
			name = fmt.Sprint("name ", turn%e2e.CrashNames, " ", g)
		}
		if w.Names[name] == nil {
			w.Names[name] = &e2e.Expectation{}
		}
		var next e2e.State
		var err error
		switch w.Random.IntN(10) {
		case 0, 1:
			w.Names[name].InFlight = &next
			_, err = l.Ask(w.Random, 204, "DELETE", e2e.BlobTarget(w.Account, name), nil)
		case 2, 3, 4:
			next, err = l.Upload(w, name)
		default:
			data := w.Content()
			next = e2e.State{Exists: true, Sum: sha256.Sum256(data)}
			w.Names[name].InFlight = &next
			_, err = l.Ask(w.Random, 204, "PUT", e2e.BlobTarget(w.Account, name), data)
		}
		if errors.Is(err, errNothingHappened) {
			w.Names[name].InFlight, w.Names[name].UploadID = nil, ""
		}
		if err == nil {
			*w.Names[name] = e2e.Expectation{Acknowledged: next}
			l.readBack(w, name)
		}
	}
}

// Upload stores a blob in parts, each sent to a random node.
func (l *load) Upload(w *e2e.Writer, name string) (e2e.State, error) {
	data := w.Content()
	partSize := max(1, len(data)/(1+w.Random.IntN(4)))
	body := fmt.Appendf(nil, `{"rawAccount":%q,"rawBlobName":%q,"rawPartSize":%d}`, w.Account, name, partSize)
	r, err := l.Ask(w.Random, 200, "POST", "/v1/multipart-uploads", body)
	if err != nil {
		return e2e.State{}, fmt.Errorf("%w: %w", errNothingHappened, err) // the blob is unchanged
	}
	var begun struct{ UploadID string }
	if err := json.Unmarshal(r.Body, &begun); err != nil {
		l.t.Errorf("begin: %v: %v", r, err)
	}
	for i := 0; i*partSize < len(data); i++ {
		if _, err := l.Ask(w.Random, 200, "PUT", e2e.PartTarget(begun.UploadID, i), data[i*partSize:min(len(data), (i+1)*partSize)]); err != nil {
			return e2e.State{}, fmt.Errorf("%w: %w", errNothingHappened, err)
		}
	}
	next := e2e.State{Exists: true, Sum: sha256.Sum256(data)}
	w.Names[name].InFlight, w.Names[name].UploadID = &next, begun.UploadID
	_, err = l.Ask(w.Random, 200, "POST", "/v1/multipart-uploads/"+begun.UploadID+"/complete", nil)
	return next, err
}

// readBack reads a name on a random node that was just acknowledged.
func (l *load) readBack(w *e2e.Writer, name string) {
	want := w.Names[name].Acknowledged
	status := http.StatusOK
	if !want.Exists {
		status = http.StatusNotFound
	}
	r, err := l.Ask(w.Random, status, "GET", e2e.BlobTarget(w.Account, name), nil)
	if err == nil && want.Exists && sha256.Sum256(r.Body) != want.Sum {
		l.t.Errorf("%s/%s: %d bytes of another content than the acknowledged one", w.Account, name, len(r.Body))
	}
}

// Use uses a session. Only a use that may be repeated has a key: the HTTP client repeats a request
// with a key by itself, and then reports the last attempt only.
func (l *load) Use(c *e2e.Counter, random *rand.Rand) {
	for c.Issued.Load() < 1000 && !l.over.Load() {
		var h e2e.Headers
		if l.attempts > 1 {
			h = e2e.Headers{"Idempotency-Key", fmt.Sprint(random.Uint64())}
		}
		c.Issued.Add(1)
		_, err := l.Ask(random, 200, "POST", "/v1/sessions/"+c.ID+"/use", nil, h...)
		switch {
		case err == nil:
			c.Acknowledged.Add(1)
		case errors.Is(err, errNothingHappened):
			c.Issued.Add(-1)
		}
	}
}

// TestRollingRestart restarts node after node behind a load balancer with the documented
// configuration. No request may fail for a client that retries once.
// Invariant 89.
func TestRollingRestart(t *testing.T) {
	testenv.Require(t, testenv.Nginx)
	t.Parallel()
	c := e2e.NewCluster(t, e2e.Options{Flags: []string{"--base-path", e2e.HostedBase, "--drain-wait", "1s"}})
	c.Start(3)
	l := newLoad(t, []*e2e.Server{c.Balanced(t)}, 2)
	l.Start()
	l.restartEach(c.Nodes)
	for _, used := range l.counters {
		if used.Issued.Load() != used.Acknowledged.Load() || used.Used != used.Acknowledged.Load() {
			t.Errorf("%d uses acknowledged of %d, %d counted", used.Acknowledged.Load(), used.Issued.Load(), used.Used)
		}
	}
}

// TestStoresStopAndStart stops the database, as a crash would, and then the object store, under
// load. /readyz must report each failure and each recovery, no acknowledged write may be lost, and
// recovery must need no intervention.
// Invariant 88.
func TestStoresStopAndStart(t *testing.T) {
	t.Parallel()
	c := e2e.NewCluster(t, e2e.Options{})
	c.Start(3)
	views := c.Views(t)
	pays := views[0].Open(views[0].Payer(1), 1000)
	l := newLoad(t, views, 1)
	l.Start()
	readyz := func(status int) {
		t.Helper()
		for i, view := range views {
			view.Eventually(fmt.Sprintf("/readyz of node %d is not %d", i, status), func() bool {
				r := view.Do("GET", "/readyz", nil)
				if r.Status == 503 {
					e2e.CheckProblem(t, r, 503, "not_ready")
				}
				return r.Status == status
			})
		}
	}
	l.further(someRequests)
	testenv.OK(t, c.Database.Stop())
	readyz(503)
	testenv.OK(t, c.Database.Start())
	readyz(200)
	l.further(someRequests)
	large, small := e2e.Content(1, 100_000), e2e.Content(2, 100)
	views[0].Must(204, "PUT", e2e.BlobTarget("0x1", "large"), large)
	views[0].Must(204, "PUT", e2e.BlobTarget("0x1", "small"), small)
	c.Objects.Stop()
	readyz(503)
	for _, view := range views {
		e2e.CheckProblem(t, view.Do("GET", e2e.BlobTarget("0x1", "large"), nil), 503, "")
		view.Holds(e2e.BlobTarget("0x1", "small"), small)
	}
	c.Objects.Start()
	readyz(200)
	views[0].Holds(e2e.BlobTarget("0x1", "large"), large)
	l.further(someRequests)
	l.Verify(views)
	pays.Buy(10)
	pays.Settled() // background tasks continue too
}

// TestKilledNode kills the leader under load. No acknowledged write may be lost, and another node
// must become the leader.
// Invariant 88.
func TestKilledNode(t *testing.T) {
	t.Parallel()
	c := e2e.NewCluster(t, e2e.Options{Dirty: true})
	c.Start(1) // the only node, so it becomes the leader
	pays := c.Nodes[0].Open(c.Nodes[0].Payer(1), 1000)
	pays.Buy(10)
	pays.Settled()
	c.Start(2)
	views := c.Views(t)
	l := newLoad(t, views, 1)
	l.Start()
	l.further(someRequests)
	c.Nodes[0].Kill()
	l.further(someRequests)
	l.Verify(views[1:])
	if l.failed.Load() == 0 {
		t.Error("the kill interrupted no request")
	}
	pays.S = views[1]
	pays.Buy(10)
	pays.Settled()
	c.Nodes[0].Restart()
	for _, w := range l.writers {
		w.Verify(views[0])
	}
	for i, node := range c.Nodes {
		if text := node.Log.String(); strings.Contains(text, "background task failed") {
			t.Errorf("node %d reports a failed task:\n%s", i, e2e.Tail(text))
		}
	}
}
