// Package s3api implements Amazon S3's interface to the same blobs, keys, limits and quotas as
// package httpapi: a bucket is an account, and an object is a blob. It enforces the rules of S3's
// requests and responses; the rules of blobs are in package blob, and the code that all interfaces
// share is in package exchange. docs/s3.md documents the supported operations.
package s3api

import (
	"net/http"
	"strings"
	"sync"

	"sluice/access"
	"sluice/admin"
	"sluice/blob"
	"sluice/exchange"
	"sluice/internal/auditlog"
	"sluice/metastore"
)

// Config configures a Server. Every field is required unless its comment states otherwise.
type Config struct {
	Exchanges *exchange.Service // shared by the exchanges of all interfaces
	Blobs     *blob.Service
	Keys      *access.Authenticator // nil: a local instance, which takes any credentials or none
	Reads     access.Reads
	Places    *access.Places // of an instance with these reads; nil: no place has settings
	Admin     *admin.Service // changes the settings of places; nil: nothing does
	// Domains make buckets hosts below them, each valid by CheckDomain: the bucket b of the domain
	// d is also the host b.d. A local instance has localhost in addition. If a hosted service has
	// any, it refuses other host names.
	Domains []string
	Host    string // the native interface's host name; "": it is not known
	// UnsignedPayload accepts a body that the request's signature does not cover from everywhere,
	// and not only over TLS and from this machine.
	UnsignedPayload bool
	Aliases         *blob.Aliases // of buckets; nil: there are none
	// Encrypted declares that the stores encrypt all bytes at rest. Clients may then ask for it.
	Encrypted bool
}

// Server is an http.Handler that implements the interface.
type Server struct {
	*exchange.Service

	blobs     *blob.Service
	keys      *access.Authenticator
	reads     access.Reads
	places    *access.Places
	admin     *admin.Service
	hosts     hosts
	unsigned  bool
	aliases   *blob.Aliases // nil: there are none
	encrypted bool
	door      exchange.Door

	seenMu sync.Mutex
	seen   map[string]bool // accounts with buckets
}

// New returns a Server.
func New(c Config) *Server {
	s := &Server{
		Service: c.Exchanges, blobs: c.Blobs, keys: c.Keys, reads: c.Reads, hosts: newHosts(c.Domains, c.Host, c.Keys == nil), unsigned: c.UnsignedPayload,
		aliases: c.Aliases, encrypted: c.Encrypted, seen: map[string]bool{},
	}
	s.admin = c.Admin
	if s.places = c.Places; s.places == nil {
		s.places = access.NewPlaces(nil, c.Reads, 0)
	}
	s.door = exchange.Door{Errors: errorTable, Refuse: refuse, Exposed: exposed, Host: s.isBucketHost}
	return s
}

// call is an exchange with the interface.
type call struct {
	exchange.Exchange

	target
	account   string              // the bucket's; "" without one
	rules     access.AccountRules // for a read
	rule      access.Rule         // for a read of an object
	lifecycle []metastore.Rule    // the account's, if the response reports when an object expires
	ruled     bool                // the bucket's CORS rules decide which pages read the response
	unsigned  bool                // see Config.UnsignedPayload
	query     query
	version   versionID   // that the query names
	header    http.Header // the request's, with the fields X-Amz-... of its query
	op        *operation
	signed    *signed // the request's signature; nil: there is none, or the instance is local
}

// route selects an operation by the method, the level, the query's parameters, and whether the
// header names a source to copy.
type route struct {
	method    string
	level     level
	parameter string // or two, joined by "&"; "": there is none that selects
	operation operation
}

// selects reports whether the query has the route's parameters.
func (r *route) selects(q query) bool {
	one, other, _ := strings.Cut(r.parameter, "&")
	return (one == "" || q.has(one)) && (other == "" || q.has(other))
}

// operation is an operation that a request asks for.
type operation struct {
	name   string // S3's
	handle func(*Server, *call) error
	scope  access.Scope    // that a hosted service's caller needs; "": the handler decides
	some   bool            // a key for some names is enough: it is about none, or the handler asks for each
	lists  bool            // it lists names, with the query's prefix
	bucket bool            // it needs a bucket that exists
	writes bool            // it changes the database, which the fence can forbid
	copies bool            // the request names a source, by X-Amz-Copy-Source
	audits auditlog.Action // how it accesses the object that it names; "": it does not
}

// pattern returns the operation's pattern for the log and the metrics.
func (o *operation) pattern(t target) string { return t.pattern() + " " + o.name }

// exposed are the header fields that pages of other origins may read. A blob's own metadata is
// added to them.
const exposed = "Accept-Ranges, Content-Disposition, Content-Encoding, Content-Language, Content-Length, Content-Range, ETag, Last-Modified, Retry-After, x-amz-checksum-crc32, x-amz-checksum-crc32c, x-amz-checksum-crc64nvme, x-amz-checksum-sha1, x-amz-checksum-sha256, x-amz-checksum-type, x-amz-copy-source-version-id, x-amz-delete-marker, x-amz-expiration, x-amz-mp-parts-count, x-amz-object-lock-legal-hold, x-amz-object-lock-mode, x-amz-object-lock-retain-until-date, x-amz-request-id, x-amz-server-side-encryption, x-amz-version-id, X-Request-Id"

// isBucketHost reports whether a bucket or a domain has this host, as exchange.Door wants it.
func (s *Server) isBucketHost(host string) bool {
	_, known := s.hosts.find(host)
	return known
}
