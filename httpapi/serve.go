package httpapi

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"sluice/access"
	"sluice/exchange"
	"sluice/exchange/headers"
	"sluice/httpapi/internal/router"
	"sluice/internal/auditlog"
	"sluice/internal/metrics"
	"sluice/metering"
	"sluice/wire"
)

// New returns a Server. It returns an error if the base path is malformed, or if there are keys but
// no limiter.
func New(c Config) (*Server, error) {
	c.BlockedBy = cmp.Or(c.BlockedBy, c.URL, c.BasePath+"/")
	exchanges, err := exchange.New(c.Config)
	if err != nil {
		return nil, err
	}
	s := &Server{
		Service: exchanges,
		blobs:   c.Blobs, feed: c.Changes, sessions: c.Sessions, channels: c.Channels,
		meter:  metering.New(c.Sessions, c.Channels, c.Returns),
		places: c.Places, publicCacheControl: c.PublicCacheControl, keys: c.Keys, console: c.Console, basePath: c.BasePath,
		openAPI: bytes.Replace(wire.OpenAPI, []byte(wire.OpenAPIServer), []byte(strconv.Quote(cmp.Or(c.URL, c.BasePath, "/"))), 1),
	}
	if s.places == nil {
		s.places = access.NewPlaces(nil, c.Reads, 0)
	}
	s.inspection, s.census, s.history = c.Inspection, c.Census, metrics.NewHistory(exchanges.Metrics(), observes)
	s.price = s.meter.Price
	s.door = exchange.Door{Errors: errorTable, Refuse: s.refuse, Exposed: corsResponseHeaders}
	if s.keys == nil {
		s.faucet = c.Faucet
		if s.faults, err = newFaults(c.Faults); err != nil {
			return nil, err
		}
	}
	s.info = wire.Info{Version: c.Version, Profile: c.Profile(), URL: c.URL, Reads: string(c.Reads), Payment: c.Payment}
	if s.admin = c.Admin; c.Admin != nil && c.AdminApart {
		if s.adminRouter, err = newRouter(c.BasePath, adminRoutes(s)); err != nil {
			return nil, err
		}
	}
	if s.router, err = newRouter(c.BasePath, routes(s)); err != nil {
		return nil, err
	}
	return s, nil
}

// CheckBasePath returns an error if path is not a valid Config.BasePath.
func CheckBasePath(path string) error { return router.CheckBasePath(path) }

// CheckCacheControl returns an error if value is not a valid Config.PublicCacheControl.
func CheckCacheControl(value string) error { return headers.CheckCacheControl(value) }

// ServeHTTP serves one request and logs one line about it, or counts it (see logbuffer.Sampler). An
// error or a panic becomes an error response or, after a response's first byte, closes the
// connection.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.serveFrom(s.router, w, r) }

// serveFrom is ServeHTTP for one router's routes.
func (s *Server) serveFrom(routes *router.Router[operation], w http.ResponseWriter, r *http.Request) {
	x := &call{}
	s.Begin(&x.Exchange, &s.door, w, r)
	defer x.End()
	if err := s.serve(x, routes); err != nil {
		x.Fail(err)
	}
}

func (s *Server) serve(x *call, routes *router.Router[operation]) error {
	if err := x.Open(); err != nil {
		return err
	}
	r := x.Request
	m := routes.Match(r.Method, router.EscapedPath(r.URL))
	x.Pattern, x.params = m.Pattern, m.Params
	defer x.Leave()
	if err := s.admit(x, m); err != nil {
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
		x.Fields.Set("Allow", methods)
		return fmt.Errorf("%w; the allowed methods are %s", exchange.ErrMethod, methods)
	case router.MalformedPath:
		return m.Err
	default:
		return s.serveUnknown(x)
	}
}

func (s *Server) serveRoute(x *call, op operation) error {
	if s.Audits(op.audits) {
		if account, name, err := x.blobTarget(); err == nil {
			x.Access = auditlog.Access{Action: op.audits, Account: account, Name: name}
			if op.audits == auditlog.Copy { // the destination is in the body
				x.Access = auditlog.Access{Action: op.audits, FromAccount: account, FromName: name}
			}
			if strings.Contains(x.Pattern, inVersions) {
				if v, err := x.version(); err == nil {
					x.Access.Version = v.Version.String()
				}
			}
		}
	}
	if s.keys != nil || op.reads {
		if err := op.rule(x); err != nil {
			return err
		}
	}
	if op.writes {
		if err := x.AwaitPermission(); err != nil {
			return err
		}
	}
	if !x.Probe {
		if err := x.DiscardBody(); err != nil {
			return err
		}
	}
	if err := s.inject(x, op.fault); err != nil {
		return err
	}
	return op.handle(x)
}
