package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/access"
	"sluice/blob"
	"sluice/bytestore/memory"
	"sluice/client"
	"sluice/client/mirror"
	"sluice/database/sqlstore"
	"sluice/exchange"
	"sluice/feed"
	"sluice/httpapi"
	"sluice/test/testenv"
)

// service is a local instance in this process. Requests pass through a hook.
type service struct {
	*client.Client
	t *testing.T

	mu   sync.Mutex
	hook func(w http.ResponseWriter, r *http.Request, next http.Handler)
	log  []string // METHOD /path of requests
}

func newService(t *testing.T) *service {
	t.Helper()
	meta := testenv.Must(sqlstore.OpenSQLite(filepath.Join(testenv.MemoryDir(t), "meta.db"), sqlstore.Options{}))(t)
	hub := feed.New(meta, feed.Options{})
	handler := testenv.Must(httpapi.New(httpapi.Config{
		Reads: access.ReadsPublic, Blobs: blob.New(meta, memory.New(), blob.Options{}), Changes: hub,
		Config: exchange.Config{Log: slog.New(slog.DiscardHandler), Ready: func(context.Context) error { return nil }},
	}))(t)
	s := &service{t: t}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		hook := s.hook
		s.log = append(s.log, r.Method+" "+r.URL.Path)
		s.mu.Unlock()
		if hook != nil {
			hook(w, r, handler)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	s.Client = testenv.Must(client.New(server.URL, client.Options{MaxAttempts: 2}))(t)
	testenv.AtEnd(t, func() error {
		s.CloseIdleConnections()
		server.CloseClientConnections()
		server.Close()
		hub.Close()
		return meta.Close()
	})
	return s
}

// setHook sets the hook, and empties the log.
func (s *service) setHook(hook func(w http.ResponseWriter, r *http.Request, next http.Handler)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook, s.log = hook, nil
}

// refuse makes requests whose METHOD /path begins so have an error's status and code.
func (s *service) refuse(request string, status int, code string) {
	s.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !strings.HasPrefix(r.Method+" "+r.URL.Path, request) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"code":%q,"detail":"It is %s.","retryable":false}`, code, code)
	})
}

// requests returns how many requests since the last setHook begin with METHOD /path.
func (s *service) requests(prefix string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.log {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

// put stores a text.
func (s *service) put(account, name, text string, options ...client.PutOptions) {
	s.t.Helper()
	testenv.OK(s.t, testenv.Error(s.Put(s.t.Context(), account, name, strings.NewReader(text), append(options, client.PutOptions{})[0])))
}

func (s *service) remove(account, name string) {
	s.t.Helper()
	testenv.OK(s.t, s.Delete(s.t.Context(), account, name, client.DeleteOptions{}))
}

// blobs returns all that a mirror keeps equal, by the names behind a prefix.
func (s *service) blobs(account, prefix string) map[string]string {
	s.t.Helper()
	blobs := map[string]string{}
	for e, err := range s.List(context.WithoutCancel(s.t.Context()), account, client.ListOptions{Prefix: prefix, Metadata: true}) {
		testenv.OK(s.t, err)
		b := e.Blob
		blobs[strings.TrimPrefix(b.Name, prefix)] = fmt.Sprint(b.ETag, b.ContentType, b.CacheControl, b.ContentDisposition, b.ContentLanguage, b.Metadata, b.Expires)
	}
	return blobs
}

// pairOf is a mirror's two services, and its state.
type pairOf struct {
	t        *testing.T
	from, to *service
	o        mirror.Options

	mu     sync.Mutex
	state  mirror.State
	events []string // KIND ACCOUNT/NAME
	saves  int
}

func newPair(t *testing.T) *pairOf {
	p := &pairOf{t: t, from: newService(t), to: newService(t)}
	p.o = mirror.Options{From: mirror.Side{Client: p.from.Client, Account: "team"}, To: mirror.Side{Client: p.to.Client, Account: "team"},
		MaxDeletions: 100, Jobs: 8, Retry: time.Millisecond, StateDir: t.TempDir()}
	return p
}

// new returns the mirror with the options and the state.
func (p *pairOf) new() *mirror.Mirror {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.o
	o.State = p.state
	o.Report = func(e mirror.Event) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.events = append(p.events, strings.TrimSuffix(e.Kind+" "+e.Account+"/"+e.Name, " /"))
	}
	o.Save = func(s mirror.State) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.state, p.saves = s, p.saves+1
		return nil
	}
	return testenv.Must(mirror.New(o))(p.t)
}

// once compares once, and returns the error.
func (p *pairOf) once() error {
	o := p.o
	defer func() { p.o = o }()
	p.o.Once = true
	return p.run()
}

// run runs a mirror that ends by itself, and returns the error.
func (p *pairOf) run() error {
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	return p.new().Run(ctx)
}

// patience limits every wait. Only a fault reaches it.
const patience = 20 * time.Second

// follow runs a mirror, until the function that it returns is called, which returns Run's error.
func (p *pairOf) follow() (m *mirror.Mirror, end func() error) {
	p.t.Helper()
	m = p.new()
	ctx, cancel := context.WithCancel(p.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	end = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	p.t.Cleanup(func() { _ = end() })
	return m, end
}

// eventually waits until is returns true.
func (p *pairOf) eventually(message string, is func() bool) {
	p.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !is(); <-tick.C {
		if time.Now().After(end) {
			p.t.Fatalf("%s: the source has %v, the target %v; events %q", message, p.from.blobs("team", ""), p.to.blobs("team", ""), p.told())
		}
	}
}

// equal reports whether both sides are equal.
func (p *pairOf) equal() bool {
	p.t.Helper()
	return maps.Equal(p.from.blobs("team", p.o.From.Prefix), p.to.blobs("team", p.o.To.Prefix))
}

// told returns the events that were reported until now.
func (p *pairOf) told() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.events)
}

func (p *pairOf) saved() mirror.State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// interrupted fails the test unless a mirror ended because its context did.
func interrupted(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the mirror ended with %v", err)
	}
}
