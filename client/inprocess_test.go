package client_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"sluice/access"
	"sluice/client"
	"sluice/test/testenv"
)

// inProcess is a service behind an HTTP server, for transfers: other than a service as a transport,
// it streams bodies. Requests pass through a hook, which may replace the response or damage it.
type inProcess struct {
	*httptest.Server
	stop func()

	mu   sync.Mutex
	hook func(w http.ResponseWriter, r *http.Request, next http.Handler)
	log  []request
}

// request is a request as a service recorded it.
type request struct {
	method, path, rawRange string
}

func startInProcess() *inProcess {
	service := openService(serviceOptions{reads: access.ReadsPublic})
	s := &inProcess{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.log = append(s.log, request{r.Method, r.URL.Path, r.Header.Get("Range")})
		hook := s.hook
		s.mu.Unlock()
		if hook != nil {
			hook(w, r, service.handler)
			return
		}
		service.handler.ServeHTTP(w, r)
	}))
	s.stop = func() {
		s.Close()
		check(service.close())
	}
	return s
}

// setHook sets the hook and empties the log.
func (s *inProcess) setHook(hook func(w http.ResponseWriter, r *http.Request, next http.Handler)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook, s.log = hook, nil
}

// alter alters the body of each response from now on.
func (s *inProcess) alter(alter func(offset int64, p []byte) []byte) {
	s.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(&alteredWriter{ResponseWriter: w, alter: alter}, r)
	})
}

// requests returns for how many requests since the last setHook which is true.
func (s *inProcess) requests(which func(request) bool) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.log {
		if which(r) {
			n++
		}
	}
	return n
}

// startServer starts a service for a test, and returns a client of it.
func startServer(t testing.TB) (*inProcess, *client.Client) {
	t.Helper()
	s := startInProcess()
	t.Cleanup(s.stop)
	c := testenv.Must(client.New(s.URL, client.Options{}))(t)
	t.Cleanup(c.CloseIdleConnections)
	return s, c
}
