// Package exchange implements the common part of all interfaces' requests: a request and its
// response, from the caller's address and key to the line in the log. It admits requests within the
// node's limits and their callers', paces bodies, keeps replies in memory within bounds, maps
// errors to codes, and drains. The interfaces, which are Doors, decide what a request means.
package exchange

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/exchange/transfer"
	"sluice/history"
	"sluice/internal/auditlog"
	"sluice/internal/logbuffer"
	"sluice/internal/metrics"
	"sluice/internal/tracing"
	"sluice/wire"
)

// Config configures a Service. Every field is required unless its comment names a default or a
// meaning of nil.
type Config struct {
	// Keys authenticates callers. nil makes a local instance: every caller may do everything,
	// credentials are ignored, and Local protects the instance from foreign web pages.
	Keys  *access.Authenticator
	Local Local // used only if Keys is nil

	Ready      func(context.Context) error // returns why the service cannot serve requests, or nil
	History    *history.History            // permits everything but reads; nil: always
	Log        *slog.Logger
	RequestLog *slog.Logger // of a line about each request; nil: Log
	// LoggedRequests selects the requests that are logged; "": LogAll.
	LoggedRequests LoggedRequests
	// LogPaths adds to the lines about requests the path, with the names of accounts and blobs, and
	// the error's code. It is for a developer's terminal, and has no effect if there are Keys.
	LogPaths bool
	// AuditLog has a line for each change of a blob, and with AuditReads for each read; nil: there
	// is none.
	AuditLog   *auditlog.Log
	AuditReads bool

	Limiter        *access.Limiter  // of keys and addresses; nil: no limits, allowed only if Keys is nil
	TrustedProxies []netip.Prefix   // their X-Forwarded-For is trusted; may be empty
	MaxRequests    int64            // maximum number of concurrent requests; 0: DefaultMaxRequests
	MinRate        transfer.MinRate // of bodies; zero: transfer.DefaultMinRate
	ProbeLimits    keys.Limits      // of one address's probes and preflights; zero: DefaultProbeLimits
	Metrics        *metrics.Set     // with which the request metrics are registered; nil: none
	Tracer         *tracing.Tracer  // nil: no traces
	// BlockedBy is a reference to the service that blocks a blob (RFC 7725, section 4); "": "/".
	BlockedBy string
}

// DefaultMaxRequests is the default maximum number of concurrent requests.
const DefaultMaxRequests = 4096

// DefaultProbeLimits bound an address's probes and preflights. They are far above the needs of load
// balancers and browsers, and prevent one client from using up a node's processors.
var DefaultProbeLimits = keys.Limits{RequestsPerSecond: 200, ConcurrentRequests: 64}

// Service is the state that a node's exchanges share. Its methods may be called concurrently.
type Service struct {
	keys           *access.Authenticator // nil: local instance
	origins        originPolicy
	trustedProxies []netip.Prefix
	limiter        *access.Limiter  // of keys and addresses
	probeLimiter   *access.Limiter  // of requests to which no other limit applies; nil: no limits
	lookupLimiter  *access.Limiter  // of keys that are not cached; nil on a local instance
	history        *history.History // nil: everything is permitted
	slots          *slots
	replies        *replies
	documents      *replies
	minRate        transfer.MinRate
	log            requestLog
	serverErrors   serverErrors
	audit          *auditlog.Log // nil: there is none
	auditReads     bool
	metrics        *metrics.Requests
	tracer         *tracing.Tracer // nil: no traces
	blockedBy      string          // the field Link of a response about a blocked blob
	readiness      *readiness

	draining atomic.Bool
	cut      *transfer.Cut
	serving  sync.RWMutex // held shared by each exchange
}

// New returns a Service. It returns an error if there are keys but no limiter.
func New(c Config) (*Service, error) {
	s := &Service{
		keys: c.Keys, origins: anyOrigin{}, trustedProxies: c.TrustedProxies, limiter: c.Limiter, history: c.History,
		slots:   newSlots(cmp.Or(c.MaxRequests, DefaultMaxRequests)),
		minRate: cmp.Or(c.MinRate, transfer.DefaultMinRate),
		audit:   c.AuditLog, auditReads: c.AuditReads,
		metrics:   metrics.NewRequests(c.Metrics, allCodes()),
		tracer:    c.Tracer,
		blockedBy: "<" + cmp.Or(c.BlockedBy, "/") + `>; rel="blocked-by"`,
		readiness: &readiness{check: c.Ready, log: c.Log},
		cut:       transfer.NewCut(ErrDraining),
	}
	s.replies, s.documents = newReplies(s.slots.max), newDocuments()
	requests := cmp.Or(c.RequestLog, c.Log)
	s.log = requestLog{
		requests, c.LoggedRequests, c.LogPaths && c.Keys == nil,
		logbuffer.NewSampler(requests, slog.LevelInfo, "requests not logged"), s.cut.Ended,
	}
	s.serverErrors = newServerErrors(c.Log)
	s.readiness.stopped = s.draining.Load
	switch {
	case s.keys == nil:
		s.origins = newLocalOrigins(c.Local)
		if s.limiter == nil {
			s.limiter = access.NewLimiter(access.LimiterOptions{})
		}
	case s.limiter == nil:
		return nil, errors.New("a service with keys needs a limiter")
	default:
		s.probeLimiter = access.NewLimiter(access.LimiterOptions{Address: cmp.Or(c.ProbeLimits, DefaultProbeLimits)})
		s.lookupLimiter = access.NewLimiter(access.LimiterOptions{Address: s.limiter.AddressLimits()})
	}
	return s, nil
}

// DescribeMetrics registers the metrics of requests with a Set that is never collected.
func DescribeMetrics(set *metrics.Set) { metrics.NewRequests(set, allCodes()) }

// Timeouts that do not depend on a transfer's size.
const (
	readHeaderTimeout = 30 * time.Second
	idleTimeout       = 2 * time.Minute
)

// ServerOf returns an HTTP server for a door's handler. Bodies have no absolute time limit,
// but a minimum rate.
func (s *Service) ServerOf(door http.Handler) *http.Server {
	return newHTTPServer(door, s.serverErrors)
}

// NewUnreadyHTTPServer returns an HTTP server for a handler without a Service, which logs the
// errors of connections to log.
func NewUnreadyHTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	return newHTTPServer(h, newServerErrors(log))
}

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
func (s *Service) FlushLog() {
	s.log.refusals.Flush()
	s.serverErrors.sampler.Flush()
}

// Busy reports whether requests are in progress, other than probes and preflights.
func (s *Service) Busy() bool { return s.slots.busy() }

// Ready returns why the service cannot serve requests, or nil. The result is from Config.Ready, at
// most a second ago. Ready waits for at most five seconds.
func (s *Service) Ready(ctx context.Context) error { return s.readiness.get(ctx) }

// Draining reports whether Drain was called.
func (s *Service) Draining() bool { return s.draining.Load() }

// RefusedBusy returns how many requests were refused because too many were in progress, whatever
// the limits of their callers.
func (s *Service) RefusedBusy() int64 { return s.slots.refused.Load() }

// ReplyMemory returns how many bytes of replies wait in memory for their clients.
func (s *Service) ReplyMemory() int64 { return s.replies.held() }

// MaxRequests returns the maximum number of concurrent requests.
func (s *Service) MaxRequests() int64 { return s.slots.max }

// Counts are numbers of requests in progress, other than probes and preflights.
type Counts struct {
	Active    int64
	Anonymous int64 // of Active, without a key, or with one that is not known
	Held      int64 // of Active, writes that wait for the fence
}

// Counts returns how many requests are in progress.
func (s *Service) Counts() Counts {
	return Counts{s.slots.active.Load(), s.slots.anonymous.Load(), s.slots.held.Load()}
}

// MinRate returns the minimum rate of bodies.
func (s *Service) MinRate() transfer.MinRate { return s.minRate }

// Log returns the log of requests.
func (s *Service) Log() *slog.Logger { return s.log.Logger }

// Metrics returns the metrics of requests.
func (s *Service) Metrics() *metrics.Requests { return s.metrics }

// Limiter returns the limits of keys and addresses.
func (s *Service) Limiter() *access.Limiter { return s.limiter }

// Drain makes /readyz fail and closes every connection after its response.
func (s *Service) Drain() { s.draining.Store(true) }

// Cut ends the request bodies that are being received: the response to such a request is 503
// draining, and it has no effect. Cut reports whether there were any.
func (s *Service) Cut() bool { return s.cut.Now() }

// CutContext returns a context that ends with Cut.
func (s *Service) CutContext() context.Context { return s.cut.Context() }

// Wait waits until no exchange is in progress and prevents new ones. It returns the error of ctx if
// that ends first.
func (s *Service) Wait(ctx context.Context) error {
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

// Await waits until the exchanges that are in progress have ended, which is after their responses
// have been sent.
func (s *Service) Await() {
	s.serving.Lock()
	defer s.serving.Unlock()
}
