// Package httpapi is the HTTP side of sluice: routing, ranges, conditions,
// errors, and one file of handlers for each resource. It holds no rules about
// blobs, sessions or channels; those are in the packages of these names.
package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/blob"
	"sluice/paychan"
	"sluice/session"
	"sluice/wire"
)

// Config is what a Server works with. All fields but the lists and BasePath are
// required.
type Config struct {
	Version       string
	BasePath      string // "" or "/NAME"
	Blobs         *blob.Service
	Sessions      *session.Service
	Channels      *paychan.Service
	Reads         Reads                       // who may read
	Payment       wire.Payment                // whom to pay, in what, and how much
	AllowedHosts  []string                    // host names answered under, beside loopback
	CORSOrigins   []string                    // origins served, beside loopback
	OpenToNetwork bool                        // IP literals are allowed hosts
	Ready         func(context.Context) error // why the service cannot serve now
	Log           *slog.Logger
}

// Server answers the requests of the interface. It is an http.Handler.
type Server struct {
	Config
	router   *router
	local    localGuard
	pace     pace
	draining atomic.Bool
	serving  sync.RWMutex // held shared by each exchange
}

// New gives a Server. It fails when the base path is malformed.
func New(c Config) (*Server, error) {
	s := &Server{
		Config: c,
		local:  newLocalGuard(c.AllowedHosts, c.CORSOrigins, c.OpenToNetwork),
		pace:   defaultPace,
	}
	var err error
	if s.router, err = newRouter(c.BasePath, s.routes()); err != nil {
		return nil, err
	}
	return s, nil
}

// CheckBasePath reports what is wrong with a base path.
func CheckBasePath(path string) error {
	_, err := newRouter(path, nil)
	return err
}

// Times that do not depend on how much is transferred.
const (
	readHeaderTimeout = 30 * time.Second
	idleTimeout       = 2 * time.Minute
)

// NewHTTPServer gives an HTTP server for s. Bodies have no absolute time limit:
// each handler guards the progress of what it reads and writes.
func NewHTTPServer(s *Server, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           s,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		// net/http adds 4 KiB of its own to what is set here.
		MaxHeaderBytes: wire.MaxHeaderBytes - 4<<10,
		// OPTIONS * is a request like any other.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// routes is the table of all operations.
func (s *Server) routes() []route {
	return []route{
		{method: "POST", pattern: "/v1/sessions", handle: s.createSession},
		{method: "GET", pattern: "/v1/sessions/{sessionId}", handle: s.getSession},
		{method: "POST", pattern: "/v1/sessions/{sessionId}/use", handle: s.useSession},
		{method: "POST", pattern: "/v1/sessions/micropaymentchannels", handle: s.openChannel},
		{method: "GET", pattern: "/v1/sessions/micropaymentchannels/{channelId}", handle: s.getChannel},
		{method: "POST", pattern: "/v1/sessions/micropaymentchannels/{channelId}/deposit", handle: s.addDeposit},
		{method: "POST", pattern: "/v1/sessions/micropaymentchannels/{channelId}/close", handle: s.closeChannel},

		{method: "GET", pattern: "/v1/blobs/{account}", handle: s.listBlobs},
		{method: "GET", pattern: "/v1/blobs/{account}/{blobName...}", handle: s.getBlob},
		{method: "PUT", pattern: "/v1/blobs/{account}/{blobName...}", handle: s.putBlob},
		{method: "DELETE", pattern: "/v1/blobs/{account}/{blobName...}", handle: s.deleteBlob},

		{method: "POST", pattern: "/v1/multipart-uploads", handle: s.beginUpload},
		{method: "GET", pattern: "/v1/multipart-uploads", handle: s.listUploads},
		{method: "GET", pattern: "/v1/multipart-uploads/{uploadId}", handle: s.getUpload},
		{method: "DELETE", pattern: "/v1/multipart-uploads/{uploadId}", handle: s.abortUpload},
		{method: "PUT", pattern: "/v1/multipart-uploads/{uploadId}/parts/{partIdx}", handle: s.putPart},
		{method: "POST", pattern: "/v1/multipart-uploads/{uploadId}/complete", handle: s.completeUpload},

		{method: "GET", pattern: "/v1/info", handle: s.getInfo},
		{method: "GET", pattern: "/livez", handle: s.livez, bare: true},
		{method: "GET", pattern: "/readyz", handle: s.readyz, bare: true},
		{method: "GET", pattern: "/openapi.yaml", handle: s.openAPI, bare: true},
	}
}

// Drain makes readyz fail and every connection close after its reply.
func (s *Server) Drain() { s.draining.Store(true) }

// Wait waits until no exchange is going on, and lets no further one begin. When
// ctx ends first it returns the context's error.
func (s *Server) Wait(ctx context.Context) error {
	ended := make(chan struct{})
	go func() {
		s.serving.Lock()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for requests that were cut: %w", ctx.Err())
	}
}

// ServeHTTP answers one request, logs one line about it, and turns an error or
// a panic into the error reply, or, after the first byte of a reply, into a cut
// connection.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.serving.RLock()
	defer s.serving.RUnlock()
	x := s.newExchange(w, r)
	defer x.end()
	if err := s.serve(x, x.r); err != nil {
		x.fail(err)
	}
}

func (s *Server) serve(x *exchange, r *http.Request) error {
	h := x.Header()
	h.Set(wire.HeaderRequestID, x.requestID)
	h.Set("Referrer-Policy", "no-referrer")
	// What is open to this machine is not for any page to embed.
	h.Set("Cross-Origin-Resource-Policy", "same-site")
	if s.draining.Load() {
		h.Set("Connection", "close")
	}
	if err := s.local.admit(r, h); err != nil {
		return err
	}

	if err := discardBody(r); err != nil {
		return err
	}
	m := s.router.match(r.Method, escapedPath(r.URL))
	x.pattern = m.pattern
	switch m.outcome {
	case routeFound:
		return m.route.handle(x, r, m.params)
	case optionsAsked:
		answerOptions(x, r, m.allow)
		return nil
	case unknownMethod:
		methods := strings.Join(m.allow, ", ")
		h.Set("Allow", methods)
		return fmt.Errorf("%w; these are: %s", errMethod, methods)
	case malformedPath:
		return m.err
	default:
		return errNoRoute
	}
}

// ready tells why the service cannot serve now.
func (s *Server) ready(ctx context.Context) error {
	if s.draining.Load() {
		return errDraining
	}
	if err := s.Ready(ctx); err != nil {
		return fmt.Errorf("%w: %s", errNotReady, err.Error()) // the cause is for the log
	}
	return nil
}
