package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"sluice/internal/loopback"
)

// localGuard keeps a local instance, on which everything is open, safe from the
// pages that its user's browser shows: it answers under its own host names only
// (against DNS rebinding), and serves only pages of allowed origins.
type localGuard struct {
	hosts   map[string]bool // allowed beside loopback, lower case
	origins map[string]bool // allowed beside loopback
	anyIP   bool            // every IP literal is an allowed host
}

func newLocalGuard(local Local) localGuard {
	g := localGuard{hosts: map[string]bool{}, origins: map[string]bool{}, anyIP: local.OpenToNetwork}
	for _, h := range local.AllowedHosts {
		g.hosts[strings.ToLower(strings.TrimSuffix(h, "."))] = true
	}
	for _, o := range local.CORSOrigins {
		g.origins[strings.ToLower(strings.TrimSuffix(o, "/"))] = true
	}
	return g
}

// admit refuses a request of a foreign host or origin. The page of an allowed
// origin may read every reply, refusals included.
func (g localGuard) admit(r *http.Request, reply http.Header) error {
	setFixed(reply, "Vary", varyOrigin) // the first of them
	// What is open to this machine is not for any page to embed.
	setFixed(reply, "Cross-Origin-Resource-Policy", sameSite)
	origins := r.Header.Values("Origin")
	foreign := len(origins) > 1 || len(origins) == 1 && !g.allowsOrigin(origins[0])
	if len(origins) == 1 && !foreign {
		reply.Set("Access-Control-Allow-Origin", origins[0])
		reply.Set("Access-Control-Expose-Headers", corsResponseHeaders)
	}
	switch {
	case !g.allowsHost(r.Host):
		return errForeignHost
	case foreign:
		return errForeignOrigin
	default:
		return nil
	}
}

func (g localGuard) allowsHost(hostport string) bool {
	host := hostOnly(hostport)
	if loopback.IsHost(host) || g.hosts[host] {
		return true
	}
	_, err := netip.ParseAddr(host)
	return g.anyIP && err == nil
}

func (g localGuard) allowsOrigin(origin string) bool {
	if g.origins[strings.ToLower(origin)] {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	return loopback.IsHost(hostOnly(u.Host))
}

// hostOnly gives the host of "host", "host:port" or "[address]:port", in lower
// case and without the root's dot.
func hostOnly(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// Headers of cross-origin requests: those that a page may send, and those of
// ours that it may read beside the safelisted ones.
var (
	corsRequestHeaders = strings.Join([]string{
		"Authorization", "Blob-Expires", "Content-Digest", "Content-Type", "Idempotency-Key", "If-Match",
		"If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Range", "Repr-Digest",
		"X-Api-Key", "X-Request-Id", "X-Shelby-Micropayment", "Session-Id", "Max-Chunksets",
	}, ", ")
	corsResponseHeaders = strings.Join([]string{
		"Accept-Ranges", "Blob-Expires", "Chunkset-Price", "Chunksets-Charged", "Chunksets-Left", "Chunksets-Required", "Content-Length", "Content-Range", "ETag", "Last-Modified",
		"RateLimit", "RateLimit-Policy", "Repr-Digest", "Retry-After", "WWW-Authenticate", "X-Request-Id",
	}, ", ")
)

// answerOptions answers OPTIONS on a known path, preflights included.
func answerOptions(w http.ResponseWriter, r *http.Request, allow []string) {
	h := w.Header()
	methods := strings.Join(allow, ", ")
	h.Set("Allow", methods)
	if r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != "" {
		h.Set("Access-Control-Allow-Methods", methods)
		h.Set("Access-Control-Allow-Headers", corsRequestHeaders)
		h.Set("Access-Control-Max-Age", "600")
		if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
			h.Set("Access-Control-Allow-Private-Network", "true")
		}
	}
	w.WriteHeader(http.StatusNoContent)
}
