// Package httpapi implements the HTTP interface of sluice: routes, authorization, limits, errors,
// and one file of handlers for each resource. It enforces the rules of HTTP and of access; the
// rules of blobs, sessions and channels are in the packages of these names. docs/protocol.md
// documents the interface.
package httpapi

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"

	"sluice/access"
	"sluice/blob"
	"sluice/console"
	"sluice/database"
	"sluice/httpapi/internal/faults"
	"sluice/httpapi/internal/router"
	"sluice/httpapi/internal/transfer"
	"sluice/internal/metrics"
	"sluice/internal/tracing"
	"sluice/ledger"
	"sluice/metastore"
	"sluice/metering"
	"sluice/paychan"
	"sluice/session"
	"sluice/wire"
)

// Config configures a Server. Every field is required unless its comment says otherwise.
type Config struct {
	Version  string
	BasePath string // "" or "/NAME"
	URL      string // the service's public URL, including the base path; "": unknown
	Blobs    *blob.Service
	Sessions *session.Service
	Channels *paychan.Service
	Returns  *metering.Returns // returns what was charged and not served
	Reads    Reads
	// PublicCacheControl is the Cache-Control for blobs that everybody may read, if their writer
	// has stated none; "": no-cache. It must be valid by CheckCacheControl.
	PublicCacheControl string
	// OlderNodes reports whether a node runs that does not know the metadata of blobs. While there
	// is one, metadata is refused. nil: there is none.
	OlderNodes func() bool
	Payment    wire.Payment                // reported by /v1/info
	Ready      func(context.Context) error // returns why the service cannot serve requests, or nil
	Fence      *blob.Fence                 // says whether anything may be written; nil: always
	Log        *slog.Logger
	RequestLog *slog.Logger // of a line about each request; nil: Log
	// LoggedRequests says which requests are logged; "": LogAll.
	LoggedRequests LoggedRequests

	// Keys authenticates callers. nil makes a local instance: every caller may do everything,
	// credentials are ignored, and Local protects the instance from foreign web pages.
	Keys  *access.Authenticator
	Local Local // used only if Keys is nil

	// Faucet is set if a local instance opens channels for everyone, with money that is worth
	// nothing.
	Faucet bool

	// Faults are rules that make requests to a local instance fail, and FaultSeed is the seed for
	// their random choices. Each rule must be valid by CheckFault.
	Faults    []string
	FaultSeed uint32

	Inspection Inspection // for /v1/figures and /v1/local/
	// Census returns what is stored, counted lately enough for /v1/figures.
	Census func(context.Context) (database.Census, error)

	Console *console.Console // served at /console/; nil: there is none

	Limiter        *access.Limiter // of keys and addresses; nil: no limits, allowed only if Keys is nil
	TrustedProxies []netip.Prefix  // their X-Forwarded-For is trusted; may be empty
	MaxRequests    int64           // maximum number of concurrent requests; 0: DefaultMaxRequests
	Metrics        *metrics.Set    // with which the request metrics are registered; nil: none
	Tracer         *tracing.Tracer // nil: no traces
}

// Inspection reads what a service's operator sees.
type Inspection interface {
	ledger.Inspection
	metastore.Accounts
}

// Reads says who may read blobs.
type Reads string

// The kinds of reads.
const (
	ReadsPublic Reads = "public" // everybody, free of charge
	ReadsKey    Reads = "key"    // callers with a key that may read the account
	ReadsPaid   Reads = "paid"   // callers who pay for the chunksets that a response touches
)

// DefaultMaxRequests is the default maximum number of concurrent requests.
const DefaultMaxRequests = 4096

// Profile returns "local" or "hosted", which /v1/info reports.
func (c *Config) Profile() string {
	if c.Keys == nil {
		return "local"
	}
	return "hosted"
}

// DescribeMetrics registers the metrics of requests with a Set that is never collected.
func DescribeMetrics(set *metrics.Set) { metrics.NewRequests(set, allCodes()) }

// Server is an http.Handler that implements the interface.
type Server struct {
	blobs              *blob.Service
	sessions           *session.Service
	channels           *paychan.Service
	meter              *metering.Meter
	price              func() int64 // a chunkset's
	reads              Reads
	publicCacheControl string // "": no-cache
	olderNodes         func() bool
	keys               *access.Authenticator // nil: local instance
	faults             *faults.Set           // nil if hosted
	faucet             bool
	console            *console.Console // nil: there is none
	basePath           string           // "" or "/NAME"

	router         *router.Router[operation]
	origins        originPolicy
	trustedProxies []netip.Prefix
	limiter        *access.Limiter // of keys and addresses
	probeLimiter   *access.Limiter // of requests to which no other limit applies; nil: no limits
	lookupLimiter  *access.Limiter // of keys that are not cached; nil on a local instance
	fence          *blob.Fence     // nil: there is none
	slots          *slots
	replies        *replies
	minRate        transfer.MinRate
	log            requestLog
	serverErrors   serverErrors
	metrics        *metrics.Requests
	tracer         *tracing.Tracer // nil: no traces
	readiness      *readiness
	inspection     Inspection
	census         func(context.Context) (database.Census, error)
	history        *metrics.History
	figures        figures

	info    wire.Info // without limits
	openAPI []byte    // with the URL of this instance; shared by all responses

	draining atomic.Bool
	cut      *transfer.Cut
	serving  sync.RWMutex // held shared by each exchange
}
