package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sluice/access"
	"sluice/database"
	"sluice/httpapi/internal/headers"
	"sluice/httpapi/internal/router"
	"sluice/httpapi/internal/transfer"
	"sluice/internal/connlimit"
	"sluice/internal/httpconn"
	"sluice/internal/logbuffer"
	"sluice/internal/metrics"
	"sluice/internal/tracing"
	"sluice/metering"
	"sluice/wire"
)

// New returns a Server. It returns an error if the base path is malformed, or if there are keys but
// no limiter.
func New(c Config) (*Server, error) {
	s := &Server{
		blobs: c.Blobs, sessions: c.Sessions, channels: c.Channels,
		meter: metering.New(c.Sessions, c.Channels, c.Returns),
		reads: c.Reads, publicCacheControl: c.PublicCacheControl, olderNodes: c.OlderNodes, keys: c.Keys, console: c.Console, basePath: c.BasePath,
		origins: anyOrigin{}, trustedProxies: c.TrustedProxies, limiter: c.Limiter,
		fence:     c.Fence,
		slots:     newSlots(cmp.Or(c.MaxRequests, DefaultMaxRequests)),
		minRate:   transfer.DefaultMinRate,
		metrics:   metrics.NewRequests(c.Metrics, allCodes()),
		tracer:    c.Tracer,
		readiness: &readiness{check: c.Ready, log: c.Log},
		openAPI:   bytes.Replace(wire.OpenAPI, []byte(wire.OpenAPIServer), []byte(strconv.Quote(cmp.Or(c.URL, c.BasePath, "/"))), 1),
		cut:       transfer.NewCut(errDraining),
	}
	requests := cmp.Or(c.RequestLog, c.Log)
	s.log = requestLog{requests, c.LoggedRequests, logbuffer.NewSampler(requests, slog.LevelInfo, "requests not logged"), s.cut.Ended}
	s.serverErrors = newServerErrors(c.Log)
	s.readiness.stopped = s.draining.Load
	s.inspection, s.census, s.history = c.Inspection, c.Census, metrics.NewHistory(s.metrics, observes)
	if s.olderNodes == nil {
		s.olderNodes = func() bool { return false }
	}
	if s.keys == nil {
		s.origins = newLocalOrigins(c.Local)
		if s.limiter == nil {
			s.limiter = access.NewLimiter(access.LimiterOptions{})
		}
		s.faucet = c.Faucet
		var err error
		if s.faults, err = newFaults(c.FaultSeed, c.Faults); err != nil {
			return nil, err
		}
	} else {
		if s.limiter == nil {
			return nil, errors.New("a service with keys needs a limiter")
		}
		s.probeLimiter = access.NewLimiter(access.LimiterOptions{Address: probeLimits})
		s.lookupLimiter = access.NewLimiter(access.LimiterOptions{Address: s.limiter.AddressLimits()})
	}
	s.replies = newReplies(s.slots.max)
	s.info = wire.Info{Version: c.Version, Profile: c.Profile(), URL: c.URL, Reads: string(c.Reads), Payment: c.Payment}
	s.price = s.meter.Price
	var err error
	if s.router, err = newRouter(c.BasePath, routes(s)); err != nil {
		return nil, err
	}
	return s, nil
}

// CheckBasePath returns an error if path is not a valid Config.BasePath.
func CheckBasePath(path string) error { return router.CheckBasePath(path) }

// CheckCacheControl returns an error if value is not a valid Config.PublicCacheControl.
func CheckCacheControl(value string) error { return headers.CheckCacheControl(value) }

// Timeouts that do not depend on a transfer's size.
const (
	readHeaderTimeout = 30 * time.Second
	idleTimeout       = 2 * time.Minute
)

// NewHTTPServer returns an HTTP server for s. Bodies have no absolute time limit, but a minimum
// rate.
func NewHTTPServer(s *Server) *http.Server { return newHTTPServer(s, s.serverErrors) }

func newHTTPServer(h http.Handler, errors serverErrors) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		// net/http adds 4 KiB to this value.
		MaxHeaderBytes: wire.MaxHeaderBytes - 4<<10,
		HTTP2:          transfer.HTTP2Config(),
		// OPTIONS * is a request like any other.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     log.New(errors, "", 0),
	}
}

// FlushLog writes how many lines were not written to the log. The caller must call it when no more
// requests are served.
func (s *Server) FlushLog() {
	s.log.refusals.Flush()
	s.serverErrors.sampler.Flush()
}

// Busy reports whether requests are in progress, other than probes and preflights.
func (s *Server) Busy() bool { return s.slots.busy() }

// Ready returns why the service cannot serve requests, or nil. The result is from Config.Ready, at
// most a second ago. Ready waits for at most five seconds.
func (s *Server) Ready(ctx context.Context) error { return s.readiness.get(ctx) }

// Draining reports whether Drain was called.
func (s *Server) Draining() bool { return s.draining.Load() }

// RefusedBusy returns how many requests were refused because too many were in progress, whatever
// the limits of their callers.
func (s *Server) RefusedBusy() int64 { return s.slots.refused.Load() }

// ReplyMemory returns how many bytes of replies wait in memory for their clients.
func (s *Server) ReplyMemory() int64 { return s.replies.held() }

// MaxRequests returns the maximum number of concurrent requests.
func (s *Server) MaxRequests() int64 { return s.slots.max }

// Drain makes /readyz fail and closes every connection after its response.
func (s *Server) Drain() { s.draining.Store(true) }

// Cut ends the request bodies that are being received: the response to such a request is 503
// draining, and it has no effect. Cut reports whether there were any.
func (s *Server) Cut() bool { return s.cut.Now() }

// Wait waits until no exchange is in progress and prevents new ones. It returns the error of ctx if
// that ends first.
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

// ServeHTTP serves one request and logs one line about it, or counts it (see logbuffer.Sampler). An
// error or a panic becomes an error response or, after a response's first byte, closes the
// connection.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.serving.RLock()
	defer s.serving.RUnlock()
	x := s.newExchange(w, r)
	defer x.end()
	if err := s.serve(x); err != nil {
		x.fail(err)
	}
}

func (s *Server) newExchange(w http.ResponseWriter, r *http.Request) *exchange {
	conn := connlimit.FromContext(r.Context())
	conn.Begin()
	s.metrics.Begin()
	options := transfer.Options{Rate: s.minRate, Context: r.Context(), HTTP2: r.ProtoMajor == 2, Cut: s.cut}
	if r.ProtoMajor == 1 && r.TLS == nil {
		options.Conn = httpconn.FromContext(r.Context())
	}
	x := &exchange{
		conn:      conn,
		log:       &s.log,
		metrics:   s.metrics,
		replies:   s.replies,
		draining:  &s.draining,
		price:     s.price,
		keys:      s.keys,
		local:     s.keys == nil,
		requestID: requestID(r.Header.Get(wire.HeaderRequestID)),
		began:     time.Now(),
	}
	x.out.Init(w, options)
	x.body.Init(w, r.Body, options)
	x.header.header, x.header.inserts = w.Header(), x.out.CanInsert()
	// A copy, because the server itself reads what is left of the original body after the response.
	ctx := database.WithPatience(r.Context(), database.Patience)
	if s.tracer != nil {
		var span tracing.Request
		ctx, span = s.tracer.Request(ctx, r.Header)
		x.span = &span
	}
	if x.local {
		x.timer.Context = ctx
		ctx = &x.timer
	}
	x.r = r.WithContext(ctx)
	x.r.Body = &x.body
	return x
}

func (s *Server) serve(x *exchange) error {
	r := x.r
	x.header.set(wire.HeaderRequestID, x.requestID)
	x.header.set("Referrer-Policy", "no-referrer")
	x.header.set("X-Content-Type-Options", "nosniff")
	// A chunked body may have had a Content-Length, which net/http removes silently. A proxy
	// may have trusted that length, so the connection must not be reused (RFC 9112, section 6.1).
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		x.header.set("Connection", "close")
	}
	if err := s.origins.admit(x); err != nil {
		return err
	}
	m := s.router.Match(r.Method, router.EscapedPath(r.URL))
	x.pattern, x.params = m.Pattern, m.Params
	// Probes and preflights must get a response even if the limits of their caller are reached.
	admit := s.admit
	if m.Outcome == router.Options || m.Route != nil && m.Route.Value.probe {
		x.probe, admit = true, s.admitProbe
	}
	defer x.leave()
	if err := admit(x); err != nil {
		return err
	}
	switch m.Outcome {
	case router.Found:
		return s.serveRoute(x, m.Route.Value)
	case router.Options:
		respondOptions(x, m.Allow)
		return nil
	case router.UnknownMethod:
		methods := strings.Join(m.Allow, ", ")
		x.header.set("Allow", methods)
		return fmt.Errorf("%w; the allowed methods are %s", errMethod, methods)
	case router.MalformedPath:
		return m.Err
	default:
		return s.serveUnknown(x)
	}
}

func (s *Server) serveRoute(x *exchange, op operation) error {
	if s.keys != nil {
		if err := op.rule(x); err != nil {
			return err
		}
	}
	if op.writes {
		if err := s.awaitPermission(x); err != nil {
			return err
		}
	}
	if !x.probe {
		if err := discardBody(x); err != nil {
			return err
		}
	}
	if err := s.inject(x, op.fault); err != nil {
		return err
	}
	return op.handle(x)
}
