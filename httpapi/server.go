// Package httpapi implements the HTTP interface of sluice: routes, authorization, limits, errors,
// and one file of handlers for each resource. It enforces the rules of HTTP and of access; the
// rules of blobs, sessions and channels are in the packages of these names. docs/protocol.md
// documents the interface.
package httpapi

import (
	"context"

	"sluice/access"
	"sluice/admin"
	"sluice/blob"
	"sluice/console"
	"sluice/database"
	"sluice/exchange"
	"sluice/feed"
	"sluice/httpapi/internal/faults"
	"sluice/httpapi/internal/router"
	"sluice/internal/metrics"
	"sluice/ledger"
	"sluice/metastore"
	"sluice/metering"
	"sluice/paychan"
	"sluice/session"
	"sluice/wire"
)

// Config configures a Server. Every field is required unless its comment names a default or a
// meaning of nil.
type Config struct {
	exchange.Config // of all exchanges; its Keys make a hosted service

	Version  string
	BasePath string // "" or "/NAME"
	URL      string // the service's public URL, including the base path; "": unknown
	Blobs    *blob.Service
	Changes  *feed.Hub
	Sessions *session.Service
	Channels *paychan.Service
	Returns  *metering.Returns // refunds chunksets that were charged and not served
	Reads    access.Reads
	Places   *access.Places // of an instance with these reads; nil: no place has settings
	// PublicCacheControl is the Cache-Control for blobs that everybody may read, if their writer
	// has stated none; "": no-cache. It must be valid by CheckCacheControl.
	PublicCacheControl string
	Payment            wire.Payment // reported by /v1/info

	// Faucet is set if a local instance opens channels for everyone, with money that is worth
	// nothing.
	Faucet bool

	// Faults are rules that make requests to a local instance fail. Each must be valid by
	// CheckFault.
	Faults []string

	Inspection Inspection // for /v1/figures and /v1/local/
	// Census returns a census that is recent enough for /v1/figures.
	Census func(context.Context) (database.Census, error)

	Console *console.Console // served at /console/; nil: there is none

	Admin      *admin.Service // served at /v1/admin/; nil: it is not
	AdminApart bool           // it is served by AdminHandler only
}

// Inspection reads the data that a service's operator sees.
type Inspection interface {
	ledger.Inspection
	metastore.Accounts
}

// Profile returns "local" or "hosted", which /v1/info reports.
func (c *Config) Profile() string {
	if c.Keys == nil {
		return "local"
	}
	return "hosted"
}

// Server is an http.Handler that implements the interface.
type Server struct {
	*exchange.Service // the state that its exchanges share

	blobs              *blob.Service
	feed               *feed.Hub
	sessions           *session.Service
	channels           *paychan.Service
	meter              *metering.Meter
	price              func() int64 // a chunkset's
	places             *access.Places
	publicCacheControl string                // "": no-cache
	keys               *access.Authenticator // nil: local instance
	faults             *faults.Set           // nil if hosted
	faucet             bool
	console            *console.Console // nil: there is none
	basePath           string           // "" or "/NAME"

	router      *router.Router[operation]
	admin       *admin.Service
	adminRouter *router.Router[operation] // of AdminHandler; nil: there is none
	door        exchange.Door
	inspection  Inspection
	census      func(context.Context) (database.Census, error)
	history     *metrics.History
	figures     figures

	info    wire.Info // without limits
	openAPI []byte    // with the URL of this instance; shared by all responses
}
