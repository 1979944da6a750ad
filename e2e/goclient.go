package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	goclient "sluice/client"
	"sluice/micropay"
	"sluice/test/fault"
	"sluice/test/testenv"
)

// CountingProxy is a reverse proxy that counts requests and bytes, and can lose responses.
type CountingProxy struct {
	URL string

	Mu        sync.Mutex
	active    int             // requests in progress
	idle      *sync.Cond      // broadcasts that there are none
	Uploads   map[string]bool // uploads with a part that has arrived, by path
	Parts     map[string]int  // how often a part was acknowledged, by path
	Ranges    map[string]int  // how often a range was sent as a whole
	Delivered map[string]int  // how often a successful response was sent to its end, by method and path
	Bytes     int64           // of requests' bodies
	received  int
	limit     int           // 0: none
	reached   chan struct{} // closed after limit responses; then further requests wait for proceed
	proceed   chan struct{}
	Lose      func(*http.Request) bool // returns whether a response is lost; nil: none is
}

// NewCountingProxy starts a proxy before a server.
func NewCountingProxy(t testing.TB, s *Server) *CountingProxy {
	t.Helper()
	return NewCountingProxyOn(t, s, func(l net.Listener) net.Listener { return l })
}

// NewCountingProxyOn returns a proxy with network's listener.
func NewCountingProxyOn(t testing.TB, s *Server, network func(net.Listener) net.Listener) *CountingProxy {
	t.Helper()
	target, err := url.Parse(s.URL)
	testenv.OK(t, err)
	p := &CountingProxy{Uploads: map[string]bool{}, Parts: map[string]int{}, Ranges: map[string]int{}, Delivered: map[string]int{}}
	p.idle = sync.NewCond(&p.Mu)
	reverse := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out = r.Out.WithContext(context.WithoutCancel(r.Out.Context())) // the server gets each request
		},
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:       log.New(io.Discard, "", 0), // the client is killed
		FlushInterval:  -1,
		ModifyResponse: p.alter,
	}
	front := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.Mu.Lock()
		p.active++
		p.Bytes += max(r.ContentLength, 0)
		defer p.end()
		if upload, _, part := strings.Cut(r.URL.Path, "/parts/"); part {
			p.Uploads[upload] = true
		}
		proceed := p.proceed
		if p.limit == 0 || p.received < p.limit {
			proceed = nil
		}
		p.Mu.Unlock()
		if proceed != nil {
			<-proceed
		}
		recorder := &statusRecorder{ResponseWriter: w}
		reverse.ServeHTTP(recorder, r)
		if recorder.status/100 == 2 && http.NewResponseController(w).Flush() == nil {
			p.Mu.Lock()
			p.Delivered[r.Method+" "+r.URL.EscapedPath()]++
			p.Mu.Unlock()
		}
	}))
	front.Listener = network(front.Listener)
	front.Config.ErrorLog = log.New(io.Discard, "", 0)
	front.Start()
	t.Cleanup(front.Close)
	p.URL = front.URL
	return p
}

// statusRecorder records a response's status.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (r *statusRecorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// http.ResponseController uses Unwrap.
func (r *statusRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Acknowledged returns how often the server has acknowledged each part, by path.
func (p *CountingProxy) Acknowledged() map[string]int {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	return maps.Clone(p.Parts)
}

// Requested returns how often each range was sent as a whole.
func (p *CountingProxy) Requested() map[string]int {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	return maps.Clone(p.Ranges)
}

// alter counts a response before it is sent, and or loses it.
func (p *CountingProxy) alter(r *http.Response) error {
	p.Mu.Lock()
	lose := p.Lose
	p.Mu.Unlock()
	if lose != nil && lose(r.Request) {
		return errors.Join(fault.ErrFault, r.Body.Close())
	}
	p.Mu.Lock()
	defer p.Mu.Unlock()
	method, path := r.Request.Method, r.Request.URL.Path
	switch put := method == "PUT"; {
	case put && strings.Contains(path, "/parts/") && r.StatusCode == 200:
		p.Parts[path]++
		p.count()
	case put && r.StatusCode == 204: // a whole blob
		p.count()
	case method == "POST" && r.StatusCode == 200 && strings.HasPrefix(path, "/v1/blobs/"): // a copy or a move
		p.count()
	}
	if r.StatusCode == 206 {
		p.Ranges[r.Request.Header.Get("Range")]++
		p.count()
	}
	return nil
}

// count counts a response. The lock must be held.
func (p *CountingProxy) count() {
	if p.received++; p.received == p.limit {
		close(p.reached)
	}
}

// After returns a channel that the proxy closes after n further responses. Then requests wait until
// release.
func (p *CountingProxy) After(n int) <-chan struct{} {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.received, p.limit, p.reached, p.proceed = 0, n, make(chan struct{}), make(chan struct{})
	return p.reached
}

// Resume ends the effect of after.
func (p *CountingProxy) Resume() {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.limit = 0
	close(p.proceed)
}

// Release ends the effect of after, and waits until no request is in progress.
func (p *CountingProxy) Release() {
	p.Resume()
	p.Wait()
}

// Wait waits until no request is in progress.
func (p *CountingProxy) Wait() {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	for p.active > 0 {
		p.idle.Wait()
	}
}

// DuringCommand runs a command through the proxy until it exits, and calls do after n responses.
// Further requests wait until the caller calls resume or release.
func (p *CountingProxy) DuringCommand(t testing.TB, n int, do func(*exec.Cmd), line ...string) Result {
	t.Helper()
	reached := p.After(n)
	command := exec.CommandContext(t.Context(), Sluice, line...)
	var stdout, stderr strings.Builder
	command.Stdout, command.Stderr = &stdout, &stderr
	testenv.OK(t, command.Start())
	<-reached
	do(command)
	_ = command.Wait() // the caller checks the exit code
	return Result{command.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// end counts a request's end.
func (p *CountingProxy) end() {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if p.active--; p.active == 0 {
		p.idle.Broadcast()
	}
}

// GoPayer returns the Go client's payer for account 1. It buys 2 chunksets at a time.
func GoPayer(ctx context.Context, c *goclient.Client, stateFile string, change ...func(*goclient.PayerOptions)) (*goclient.Payer, error) {
	key, err := micropay.NewPrivateKey(micropay.KeyEd25519, bytes.Repeat([]byte{1}, 32))
	if err != nil {
		return nil, err
	}
	signer, err := micropay.NewSigner(micropay.SchemeEd25519, key)
	if err != nil {
		return nil, err
	}
	o := goclient.PayerOptions{Signer: signer, StateFile: stateFile, MaxPrice: 3, MaxSpend: 10_000, Chunksets: 2, Deposit: 20_000}
	for _, f := range change {
		f(&o)
	}
	return c.NewPayer(ctx, o)
}

// NewGoClient returns a client, and a payer with a state file in a new folder, which it also
// returns.
func NewGoClient(t testing.TB, url, key string) (*goclient.Client, *goclient.Payer, string) {
	t.Helper()
	c, err := goclient.New(url, goclient.Options{Key: key, MaxAttempts: 3})
	testenv.OK(t, err)
	t.Cleanup(c.CloseIdleConnections)
	file := filepath.Join(t.TempDir(), "payer.json")
	p, err := GoPayer(t.Context(), c, file)
	testenv.OK(t, err)
	return c, p, file
}

// CheckGoPayer checks that the server has accepted everything that the payer has signed and has
// sold as much, and that readers have used this many of all chunksets sold.
func CheckGoPayer(t testing.TB, s *Server, p *goclient.Payer, price uint64, used int64) {
	t.Helper()
	st, err := p.Status(t.Context())
	testenv.OK(t, err)
	state := (&Channel{S: s, ID: st.ChannelID}).State()
	var total, left int64
	for _, bought := range state.Sessions {
		session := s.SessionState(bought.SessionID)
		total += session.ChunksetsTotal
		left += session.ChunksetsLeft
	}
	if want := fmt.Sprint(uint64(total) * price); state.Accepted != want || state.Credit != "0" || fmt.Sprint(st.Bought) != want || st.Signed != st.Bought || st.Pending || total-left != used {
		t.Errorf("the channel is %s, %d chunksets were sold and %d are used, want %d; the payer has %+v", state.Money(), total, total-left, used, st)
	}
}
