package nodes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"sluice/e2e"
	"sluice/test/fault"
	"sluice/test/testenv"
)

// behindHAProxy runs HAProxy with the documented configuration in front of three nodes, and returns
// the service as seen through it.
func behindHAProxy(c *e2e.Cluster, t testing.TB) *e2e.Server {
	t.Helper()
	return c.ViewAt(t, e2e.Front{Nodes: c.Hosts()}.StartHAProxy(t))
}

// behindNginx runs nginx with deploy/nginx.conf in front of a service's three nodes, and returns
// the service as seen through it.
func behindNginx(t *testing.T, s *e2e.Server, nodes [3]string) *e2e.Server {
	t.Helper()
	return s.Through(e2e.Front{Nodes: nodes[:]}.StartNginx(t))
}

// TestHungNodeBehindHAProxy stops one of three nodes so that its connections stay open but nothing
// responds. The balancer must remove it without help, and add it again when it continues. The node
// then answers the requests that it had.
// Invariant 79.
func TestHungNodeBehindHAProxy(t *testing.T) {
	testenv.Require(t, testenv.HAProxy)
	t.Parallel()
	c := e2e.NewCluster(t, e2e.Options{Flags: []string{"--base-path", e2e.HostedBase}})
	c.Start(3)
	view := behindHAProxy(c, t)
	target := e2e.BlobTarget("0x1", "here")
	view.Eventually("the balancer does not find a node", func() bool { return view.Do("PUT", target, []byte("kept")).Status == 204 })

	hung := c.Nodes[0]
	before := strings.Count(hung.SettledLog(), "route=/v1/blobs/")
	hung.Signal(e2e.StopSignal)
	defer func() { _ = hung.Command.Process.Signal(e2e.ContinueSignal) }() // even if the test fails
	// The client abandons a request that meets the stopped node. When that no longer happens, the
	// balancer uses only the other nodes.
	for inARow, end := 0, time.Now().Add(e2e.Patience); inARow < 30; {
		if time.Now().After(end) {
			t.Fatal("the balancer still sends requests to a node that hangs")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, view.URL+target, nil)
		testenv.OK(t, err)
		response, err := view.Client.Do(r)
		if inARow++; err != nil {
			inARow = 0
		} else if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
			t.Errorf("a GET got %s, %v", response.Status, err)
		}
		cancel()
	}

	hung.Signal(e2e.ContinueSignal)
	hung.Eventually("the balancer does not use the node again", func() bool {
		view.Must(200, "GET", target, nil)
		return strings.Count(hung.Log.String(), "route=/v1/blobs/") > before
	})
}

// TestNginxRepeatsNothing checks that nginx with the documented configuration does not send a
// request to another node if the connection breaks after a node has served the request. The service
// charges a paid read once, refuses no micropayment because it has accepted it before, and fails no
// conditional DELETE because it has executed it before.
// Invariant 79.
func TestNginxRepeatsNothing(t *testing.T) {
	testenv.Require(t, testenv.Nginx)
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--base-path", e2e.HostedBase, "--reads", "paid"}})
	target := e2e.BlobTarget("0x1", "blob")
	etag := s.Must(204, "PUT", target, e2e.Content(1, 100)).Header.Get("ETag")
	c := s.Open(s.Payer(1), 1000)
	id := c.Buy(20).SessionID

	var networks [3]*fault.Network
	var nodes [3]string
	for i := range networks {
		networks[i] = fault.Before(t, s.Host)
		nodes[i] = networks[i].Address()
	}
	through := behindNginx(t, s, nodes)
	through.Eventually("nginx does not lead to the service", func() bool { return through.Do("GET", "/v1/info", nil).Status == 200 })

	// lost sends a request, cuts off the response, and returns how often the request arrived.
	lost := func(method string, h ...string) int64 {
		t.Helper()
		var cuts atomic.Int64
		for _, one := range networks {
			one.Disturb(func(p fault.Piece) fault.Trouble {
				if !p.Answer {
					return fault.Trouble{}
				}
				cuts.Add(1)
				return fault.Trouble{Kind: fault.Fail}
			})
		}
		if r := through.Do(method, target, nil, h...); r.Status != 502 {
			t.Errorf("%s: nginx responds with %v, want 502", method, r)
		}
		for _, one := range networks {
			one.Disturb(nil)
		}
		return cuts.Load()
	}
	if n := lost("GET", "Session-Id", id, "X-Request-Id", "chosen"); n != 1 {
		t.Errorf("a paid GET arrived %d times", n)
	}
	if left := s.SessionState(id).ChunksetsLeft; left != 19 {
		t.Errorf("the session has %d of 20 chunksets left, want 19", left)
	}
	// An X-Request-Id that the client chooses does not make a read free.
	s.Must(200, "GET", target, nil, "Session-Id", id, "X-Request-Id", "chosen")
	if left := s.SessionState(id).ChunksetsLeft; left != 18 {
		t.Errorf("the session has %d of 20 chunksets left, want 18", left)
	}
	if n := lost("GET", "X-Shelby-Micropayment", c.Next(1)); n != 1 {
		t.Errorf("a GET with a micropayment arrived %d times", n)
	}
	if got := c.State(); got.Accepted != fmt.Sprint(c.Amount) {
		t.Errorf("the channel is %s, want accepted %d", got.Money(), c.Amount)
	}
	if n := lost("DELETE", "If-Match", etag); n != 1 {
		t.Errorf("a DELETE arrived %d times", n)
	}
	e2e.CheckProblem(t, s.Do("GET", target, nil, "Session-Id", id), 404, "blob_not_found")
}

// TestBalancersWithoutANode checks that the documented balancers respond like the service while no
// node is ready: the client may repeat the request, which had no effect. If a node does not respond
// to a request that was sent, the outcome is unknown.
// Invariant 79.
func TestBalancersWithoutANode(t *testing.T) {
	s := e2e.Start(t, e2e.Options{Flags: []string{"--base-path", e2e.HostedBase}})
	nginx := func(t *testing.T, nodes [3]string) *e2e.Server {
		testenv.Require(t, testenv.Nginx)
		return behindNginx(t, s, nodes)
	}
	haproxy := func(t *testing.T, nodes [3]string) *e2e.Server {
		testenv.Require(t, testenv.HAProxy)
		return s.Through(e2e.Front{Nodes: nodes[:]}.StartHAProxy(t))
	}
	for name, behind := range map[string]func(*testing.T, [3]string) *e2e.Server{"nginx": nginx, "HAProxy": haproxy} {
		t.Run(name, func(t *testing.T) {
			nowhere := testenv.ReserveAddress(t)
			through := behind(t, [3]string{nowhere, nowhere, nowhere})
			for _, method := range []string{"GET", "PUT", "POST"} {
				r := through.Do(method, e2e.BlobTarget("0x1", "name"), []byte("x"))
				if got := checkRefusal(t, r, 503, "not_ready"); got["retryable"] != true || r.Header.Get("Retry-After") != "1" {
					t.Errorf("%s: %v with Retry-After %q", method, r, r.Header.Get("Retry-After"))
				}
			}
			network := fault.Before(t, s.Host)
			lossy := network.Address()
			through = behind(t, [3]string{lossy, lossy, lossy})
			through.Eventually("the balancer finds no node", func() bool { return through.Do("GET", "/v1/info", nil).Status == 200 })
			network.Disturb(fault.EndAfter(0, true, false))
			lost := through.Do("POST", "/v1/sessions", []byte("{}"))
			checkRefusal(t, lost, 502, "outcome_unknown")
			if lost.Header.Get("Retry-After") != "" {
				t.Errorf("a request with an unknown outcome is to be repeated: %v", lost.Header)
			}
		})
	}
}

// TestNginxEndsConnectionsOpenly checks that nginx announces that it will close a connection: if a
// node ends while it gets a body, nginx does not read the rest. A client that repeats its request
// on that connection would get no response.
func TestNginxEndsConnectionsOpenly(t *testing.T) {
	testenv.Require(t, testenv.Nginx)
	t.Parallel()
	ending := e2e.ListenHere(t)
	testenv.AtEnd(t, ending.Close)
	go func() {
		for {
			c, err := ending.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1)) // the request has begun
			_ = c.Close()
		}
	}()
	node := ending.Addr().String()
	s := &e2e.Server{T: t, Scheme: "http", Base: e2e.HostedBase, Client: e2e.Client}
	through := behindNginx(t, s, [3]string{node, node, node})
	connection := through.Dial()
	answers := bufio.NewReader(connection)
	for i := range 3 {
		_, err := fmt.Fprintf(connection, "PUT %s HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\nhalf", through.Base+e2e.BlobTarget("0x1", "name"))
		testenv.OK(t, err)
		response, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatalf("request %d on a connection that the response before did not end: %v", i+1, err)
		}
		_, err = io.Copy(io.Discard, response.Body)
		testenv.OK(t, err)
		if response.StatusCode != 502 {
			t.Errorf("the node ends: %s, want 502", response.Status)
		}
		if response.Close {
			return
		}
		_, err = io.WriteString(connection, "half")
		testenv.OK(t, err)
	}
}

// checkRefusal fails the test unless a proxy responds with an error in the service's form, and
// returns the error's members.
func checkRefusal(t *testing.T, r e2e.Response, status int, code string) (got map[string]any) {
	t.Helper()
	if r.Status != status || r.Header.Get("Content-Type") != "application/problem+json" || r.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%v with %v, want %d", r, r.Header, status)
	}
	if err := json.Unmarshal(r.Body, &got); err != nil {
		t.Fatalf("%v: %v", r, err)
	}
	for name, want := range map[string]any{"type": "urn:sluice:error:" + code, "status": float64(status), "code": code, "title": http.StatusText(status), "error": got["detail"]} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v: %s", name, got[name], want, r.Body)
		}
	}
	if r.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("a page cannot read it: %v", r.Header)
	}
	return got
}

// TestNginxErrorsMaskIDs checks that a request that fails in nginx leaves no id in the error log.
// Without the documented line the log would have it.
// Invariant 79.
func TestNginxErrorsMaskIDs(t *testing.T) {
	testenv.Require(t, testenv.Nginx)
	t.Parallel()
	nowhere := testenv.ReserveAddress(t)
	const id = "SECRETSECRETSECRETSECRET77"
	logs := func(edit func(string) string) (access, failures string) {
		listener := e2e.ListenHere(t)
		dir := e2e.StartNginx(t, listener, edit(e2e.Front{Nodes: []string{nowhere}}.Nginx(t, listener.Addr().String())))
		s := (&e2e.Server{T: t, Base: e2e.HostedBase}).Through(listener.Addr().String())
		checkRefusal(t, s.Do("GET", "/v1/sessions/"+id, nil), 503, "not_ready")
		read := func(name string) string {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			return string(text)
		}
		s.Eventually("nginx has not logged the request", func() bool { return strings.Contains(read("access.log"), id[:6]+"...") })
		return read("access.log"), read("error.log")
	}
	access, failures := logs(func(config string) string { return config })
	if strings.Contains(access+failures, id[:7]) {
		t.Errorf("the logs contain a session's id:\n%s\n%s", access, failures)
	}
	if !strings.Contains(access, nowhere) {
		t.Errorf("the access log does not name the node that failed:\n%s", access)
	}
	_, failures = logs(func(config string) string { return strings.Replace(config, "error_log /dev/null;", "", 1) })
	if !strings.Contains(failures, id) {
		t.Errorf("nginx logs no id by itself, so the test shows nothing:\n%s", failures)
	}
}

// TestNginxLogMasksIDs checks the log of nginx with the documented configuration: it has at most
// six characters of each id that grants access, however the client encodes the path.
// Invariant 79.
func TestNginxLogMasksIDs(t *testing.T) {
	testenv.Require(t, testenv.Nginx)
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--base-path", e2e.HostedBase}})
	c := s.Open(s.Payer(1), 1000)
	session := c.Buy(10).SessionID
	upload := e2e.Member(t, s.Must(200, "POST", "/v1/multipart-uploads", []byte(`{"rawAccount":"0x1","rawBlobName":"b"}`)), "uploadId")
	listener := e2e.ListenHere(t)
	dir := e2e.StartNginx(t, listener, e2e.Front{Nodes: []string{s.Host}}.Nginx(t, listener.Addr().String()))
	through := s.Through(listener.Addr().String())

	through.Eventually("nginx does not lead to the service", func() bool { return through.Do("GET", "/v1/info", nil).Status == 200 })
	through.Must(200, "GET", "/v1/sessions/"+session, nil)
	through.Must(200, "POST", "/v1/sessions/"+session+"/use", nil)
	through.Must(200, "GET", "/v1/%73essions/"+session, nil)
	through.Must(200, "GET", "/v1/sessions/micropaymentchannels/"+c.ID, nil)
	through.Must(200, "GET", "/v1/multipart-uploads/"+upload+"?limit=5", nil)
	through.Must(200, "GET", "/v1/multipart-uploads?account=0x1&after="+upload, nil)
	through.Must(200, "PUT", "/v1/multipart-uploads/"+upload+"/parts/0", []byte("x"))

	var log string
	through.Eventually("nginx has not logged the requests", func() bool {
		text, err := os.ReadFile(filepath.Join(dir, "access.log"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		log = string(text)
		return strings.Contains(log, "/parts/0")
	})
	for label, id := range map[string]string{"session": session, "channel": c.ID, "upload": upload} {
		if strings.Contains(log, id[:7]) {
			t.Errorf("the log contains more than six characters of the id of a %s:\n%s", label, log)
		}
		if !strings.Contains(log, id[:6]+"...") {
			t.Errorf("the log contains no part of the id of a %s:\n%s", label, log)
		}
	}
}
