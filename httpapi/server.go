// Package httpapi is the HTTP side of sluice: routing, ranges, conditions,
// errors, and one file of handlers for each resource. It holds no rules about
// blobs, sessions or channels; those are in the packages of these names.
package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/access"
	"sluice/blob"
	"sluice/httpapi/internal/router"
	"sluice/metering"
	"sluice/paychan"
	"sluice/session"
	"sluice/wire"
)

// Config is what a Server works with. What has no comment that says otherwise
// is required.
type Config struct {
	Version  string
	BasePath string // "" or "/NAME"
	URL      string // where clients find the service, base path included; "": wherever they found it
	Blobs    *blob.Service
	Sessions *session.Service
	Channels *paychan.Service
	Returns  *metering.Returns           // returns what was charged and not served
	Reads    Reads                       // who may read
	Payment  wire.Payment                // whom to pay, in what, and how much
	Ready    func(context.Context) error // why the service cannot serve now
	Log      *slog.Logger

	// Keys are asked who a caller is. nil makes a local instance: everything is
	// open, credentials are ignored, and Local keeps foreign pages out.
	Keys  *access.Authenticator
	Local Local

	Limiter        *access.Limiter       // of keys and addresses; nil: no limits, which goes with a local instance only
	TrustedProxies []netip.Prefix        // whose X-Forwarded-For is believed
	MaxRequests    int64                 // at work at once; 0: DefaultMaxRequests
	Metrics        prometheus.Registerer // nil: nothing is measured
}

// Local says what a local instance answers beside loopback.
type Local struct {
	AllowedHosts  []string // host names
	CORSOrigins   []string // origins of pages
	OpenToNetwork bool     // hosts that are IP literals
}

// DefaultMaxRequests is how many requests are served at once.
const DefaultMaxRequests = 4096

// Profile is what /v1/info calls the way in which the service runs.
func (c *Config) Profile() string {
	if c.Keys == nil {
		return "local"
	}
	return "hosted"
}

// Server answers the requests of the interface. It is an http.Handler.
type Server struct {
	Config
	router  *router.Router[operation]
	meter   *metering.Meter
	origins crossOrigin
	pace    pace
	metrics *metrics

	readiness *readiness
	probes    *access.Limiter // of requests that no other limit bounds; nil: no limits
	lookups   *access.Limiter // of keys that must be looked up; nil: there are no keys

	openAPIText []byte // with the address of this instance; shared by all replies

	active    atomic.Int64 // requests at work, probes not counted
	anonymous atomic.Int64 // of them, those without a key that is known
	looking   atomic.Int64 // of them, those whose key is being looked up
	draining  atomic.Bool
	cut       *cut
	serving   sync.RWMutex // held shared by each exchange
}

// New gives a Server. It fails when the base path is malformed.
func New(c Config) (*Server, error) {
	s := &Server{Config: c, pace: defaultPace, origins: anyOrigin{}, metrics: newMetrics(c.Metrics)}
	if s.Keys == nil {
		s.origins = newLocalGuard(c.Local)
	}
	if s.Limiter == nil {
		if s.Keys != nil {
			return nil, errors.New("a service with keys needs a limiter")
		}
		s.Limiter = access.NewLimiter(access.LimiterOptions{})
	}
	if s.MaxRequests == 0 {
		s.MaxRequests = DefaultMaxRequests
	}
	s.cut = newCut()
	s.meter = metering.New(c.Sessions, c.Channels, c.Returns)
	s.readiness = &readiness{ask: s.Ready, log: s.Log}
	if s.Keys != nil {
		s.probes = access.NewLimiter(access.LimiterOptions{Address: probeLimits})
		s.lookups = access.NewLimiter(access.LimiterOptions{Address: s.Limiter.AddressLimits()})
	}
	s.openAPIText = bytes.Replace(wire.OpenAPI, []byte(wire.OpenAPIServer), []byte(strconv.Quote(cmp.Or(c.URL, c.BasePath, "/"))), 1)
	routes := s.routes()
	for _, r := range routes {
		if err := r.Value.rule.check(); err != nil {
			return nil, fmt.Errorf("route %s %s: %w", r.Method, r.Pattern, err)
		}
	}
	var err error
	if s.router, err = router.New(c.BasePath, routes); err != nil {
		return nil, err
	}
	return s, nil
}

// CheckBasePath reports what is wrong with a base path.
func CheckBasePath(path string) error {
	return router.CheckBasePath(path)
}

// Times that do not depend on how much is transferred.
const (
	readHeaderTimeout = 30 * time.Second
	idleTimeout       = 2 * time.Minute
)

// What one connection over HTTP/2 may have at once: so many requests, and of each
// so many bytes of its body that its handler has not read.
//
// The library gives a connection's window back as handlers read, so that one which
// waits, for its caller's rate or for the store, holds what has come of its body. The
// window of the connection has room for all of them, and for the 4 KiB that the
// library may keep back: no stream ever waits for what another one holds. Memory is
// taken as bytes come, and the requests at once of a caller bound it. A shorter window
// of a stream would make each upload from far away slower: it is what may be under
// way.
const (
	maxStreams   = 64
	streamWindow = 1 << 20
)

// http2Config returns the bounds of each connection over HTTP/2.
func http2Config() *http.HTTP2Config {
	return &http.HTTP2Config{
		// Each stream costs memory for as long as its client lets nothing be sent,
		// and four times as many may be opened and reset before they are looked at.
		MaxConcurrentStreams:          maxStreams,
		MaxReceiveBufferPerStream:     streamWindow,
		MaxReceiveBufferPerConnection: maxStreams*streamWindow + 4<<10,
	}
}

// NewHTTPServer gives an HTTP server for s. Bodies have no absolute time limit:
// each handler guards the progress of what it reads and writes.
func NewHTTPServer(s *Server, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           s,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		// net/http adds 4 KiB of its own to what is set here.
		MaxHeaderBytes: wire.MaxHeaderBytes - 4<<10,
		HTTP2:          http2Config(),
		// OPTIONS * is a request like any other.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// operation is what a route does.
type operation struct {
	rule   rule
	handle func(x *exchange, r *http.Request, p router.Params) error
}

// routes is the table of all operations, and of who may use them.
func (s *Server) routes() []router.Route[operation] {
	read, list := s.readRules()
	write, channels := keyRule(access.ScopeWrite), keyRule(access.ScopeChannels)
	return []router.Route[operation]{
		{Method: "POST", Pattern: "/v1/sessions", Value: operation{openRule, s.createSession}},
		{Method: "GET", Pattern: "/v1/sessions/{sessionId}", Value: operation{openRule, s.getSession}},
		{Method: "POST", Pattern: "/v1/sessions/{sessionId}/use", Value: operation{openRule, s.useSession}},
		{Method: "POST", Pattern: "/v1/sessions/micropaymentchannels", Value: operation{channels.askedLater(), s.openChannel}},
		{Method: "GET", Pattern: "/v1/sessions/micropaymentchannels/{channelId}", Value: operation{openRule, s.getChannel}},
		{Method: "POST", Pattern: "/v1/sessions/micropaymentchannels/{channelId}/deposit", Value: operation{channels.finding(accountOfChannel), s.addDeposit}},
		{Method: "POST", Pattern: "/v1/sessions/micropaymentchannels/{channelId}/close", Value: operation{channels.finding(accountOfChannel), s.closeChannel}},

		{Method: "GET", Pattern: "/v1/blobs/{account}", Value: operation{list, s.listBlobs}},
		{Method: "GET", Pattern: "/v1/blobs/{account}/{blobName...}", Value: operation{read, s.getBlob}},
		{Method: "PUT", Pattern: "/v1/blobs/{account}/{blobName...}", Value: operation{write.naming(blobInPath), s.putBlob}},
		{Method: "DELETE", Pattern: "/v1/blobs/{account}/{blobName...}", Value: operation{write.naming(blobInPath), s.deleteBlob}},

		{Method: "POST", Pattern: "/v1/multipart-uploads", Value: operation{write.askedLater(), s.beginUpload}},
		{Method: "GET", Pattern: "/v1/multipart-uploads", Value: operation{write.naming(accountInQuery), s.listUploads}},
		{Method: "GET", Pattern: "/v1/multipart-uploads/{uploadId}", Value: operation{write.finding(accountOfUpload), s.getUpload}},
		{Method: "DELETE", Pattern: "/v1/multipart-uploads/{uploadId}", Value: operation{write.finding(accountOfUpload), s.abortUpload}},
		{Method: "PUT", Pattern: "/v1/multipart-uploads/{uploadId}/parts/{partIdx}", Value: operation{write.finding(accountOfPart), s.putPart}},
		{Method: "POST", Pattern: "/v1/multipart-uploads/{uploadId}/complete", Value: operation{write.finding(accountOfUpload), s.completeUpload}},

		{Method: "GET", Pattern: "/v1/info", Value: operation{openRule, s.getInfo}},
		{Method: "GET", Pattern: "/livez", Value: operation{probeRule, s.livez}, Unprefixed: true},
		{Method: "GET", Pattern: "/readyz", Value: operation{probeRule, s.readyz}, Unprefixed: true},
		{Method: "GET", Pattern: "/openapi.yaml", Value: operation{openRule, s.openAPI}, Unprefixed: true},
	}
}

// Drain makes readyz fail and every connection close after its reply.
func (s *Server) Drain() { s.draining.Store(true) }

// Cut ends the bodies that clients still send: what they were for is answered
// with 503 draining and has no effect. It reports whether there were any.
func (s *Server) Cut() bool {
	bodies := s.cut.bodies.Load() > 0
	s.cut.now()
	return bodies
}

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
	conn := connectionOf(r.Context())
	conn.begin()
	defer func() { conn.end(r.ProtoMajor == 2 && r.Context().Err() != nil) }()
	x := s.newExchange(w, r)
	defer x.end()
	s.metrics.active.Inc()
	defer s.metrics.active.Dec()
	if err := s.serve(x, x.r); err != nil {
		x.fail(err)
	}
}

func (s *Server) serve(x *exchange, r *http.Request) error {
	h := x.Header()
	h.Set(wire.HeaderRequestID, x.requestID)
	setFixed(h, "Referrer-Policy", noReferrer)
	setFixed(h, "X-Content-Type-Options", noSniff)
	// A body in chunks may have come with a Content-Length, which net/http removes
	// without a trace. Whoever stands before this server may have believed that
	// length, so the connection must not be used again (RFC 9112, section 6.1).
	if s.draining.Load() || r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		h.Set("Connection", "close")
	}
	if err := s.origins.admit(r, h); err != nil {
		return err
	}
	m := s.router.Match(r.Method, router.EscapedPath(r.URL))
	x.pattern = m.Pattern
	admit := s.admit
	if !counts(m) {
		admit = s.admitProbe
	}
	leave, err := admit(x)
	if err != nil {
		return err
	}
	defer leave()
	switch m.Outcome {
	case router.Found:
		if err := s.authorize(x, m.Route.Value.rule, m.Params); err != nil {
			return err
		}
		if counts(m) {
			if err := discardBody(r); err != nil {
				return err
			}
		}
		return m.Route.Value.handle(x, r, m.Params)
	case router.Options:
		answerOptions(x, r, m.Allow)
		return nil
	case router.UnknownMethod:
		methods := strings.Join(m.Allow, ", ")
		h.Set("Allow", methods)
		return fmt.Errorf("%w; these are: %s", errMethod, methods)
	case router.MalformedPath:
		return m.Err
	default:
		return errNoRoute
	}
}

// counts reports whether a request is served within the limits of its caller.
// Preflights and probes are not: they must be answered when nothing else is.
func counts(m router.Match[operation]) bool {
	return m.Outcome != router.Options && (m.Route == nil || m.Route.Value.rule.who != probes)
}

// ready returns why the service cannot serve now.
func (s *Server) ready(ctx context.Context) error {
	if s.draining.Load() {
		return errDraining
	}
	if err := s.readiness.check(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %s", errNotReady, err.Error()) // the cause is for the log
	}
	return ctx.Err()
}
