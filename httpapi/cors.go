package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"sluice/httpapi/internal/headers"
	"sluice/internal/loopback"
	"sluice/wire"
)

// Local says what a local instance accepts in addition to loopback.
type Local struct {
	AllowedHosts  []string // host names
	CORSOrigins   []string // origins of web pages
	OpenToNetwork bool     // all hosts that are IP addresses
}

// originPolicy decides which hosts and which web pages are served.
type originPolicy interface {
	// admit returns errForeignHost or errForeignOrigin if the request is refused. It sets the
	// headers that let pages read the response.
	admit(x *exchange) error
}

// anyOrigin is the policy of a hosted network. There are no cookies or other credentials that a
// browser would add by itself, so a page can do no more than any program.
type anyOrigin struct{}

func (anyOrigin) admit(x *exchange) error {
	x.insertFixed("Access-Control-Allow-Origin", everyOrigin)
	x.insertFixed("Access-Control-Expose-Headers", exposedHeaders)
	x.insertFixed("Cross-Origin-Resource-Policy", crossOriginPolicy)
	return nil
}

// localOrigins is the policy of a local instance, which needs no credentials. It protects the
// instance from the pages in the browser of its user: it accepts requests for its own host names
// only (against DNS rebinding), and serves only pages of allowed origins.
type localOrigins struct {
	hosts   map[string]bool // allowed in addition to loopback, in lower case
	origins map[string]bool // allowed in addition to loopback
	anyIP   bool            // every IP address is an allowed host
}

func newLocalOrigins(local Local) localOrigins {
	p := localOrigins{hosts: map[string]bool{}, origins: map[string]bool{}, anyIP: local.OpenToNetwork}
	for _, h := range local.AllowedHosts {
		p.hosts[strings.ToLower(strings.TrimSuffix(h, "."))] = true
	}
	for _, o := range local.CORSOrigins {
		p.origins[strings.ToLower(strings.TrimSuffix(o, "/"))] = true
	}
	return p
}

// admit lets pages of allowed origins read every response, including refusals.
func (p localOrigins) admit(x *exchange) error {
	x.insertFixed("Vary", varyOrigin) // the first value of Vary
	// Other pages must not embed what is accessible on this machine.
	x.insertFixed("Cross-Origin-Resource-Policy", sameSite)
	origins := x.r.Header.Values("Origin")
	foreign := len(origins) > 1 || len(origins) == 1 && !p.allowsOrigin(origins[0])
	if len(origins) == 1 && !foreign {
		x.insert("Access-Control-Allow-Origin", origins[0])
		x.insert("Timing-Allow-Origin", origins[0])
		x.insertFixed("Access-Control-Expose-Headers", exposedHeaders)
	}
	switch {
	case !p.allowsHost(x.r.Host):
		return errForeignHost
	case foreign:
		return errForeignOrigin
	default:
		return nil
	}
}

func (p localOrigins) allowsHost(hostport string) bool {
	host := hostOnly(hostport)
	if loopback.IsHost(host) || p.hosts[host] {
		return true
	}
	_, err := netip.ParseAddr(host)
	return p.anyIP && err == nil
}

func (p localOrigins) allowsOrigin(origin string) bool {
	if p.origins[strings.ToLower(origin)] {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	return loopback.IsHost(hostOnly(u.Host))
}

// hostOnly returns the host of "host", "host:port" or "[address]:port", in lower case and without a
// trailing dot.
func hostOnly(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// respondOptions responds to OPTIONS on a known path, including preflights.
func respondOptions(w http.ResponseWriter, r *http.Request, allow []string, local bool) {
	h := w.Header()
	methods := strings.Join(allow, ", ")
	h.Set("Allow", methods)
	if r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != "" {
		h.Set("Access-Control-Allow-Methods", methods)
		requestHeaders := corsRequestHeaders
		if local {
			requestHeaders += ", " + wire.HeaderFault
		}
		allowed := append([]string{requestHeaders}, headers.RequestedMeta(r.Header.Values("Access-Control-Request-Headers"))...)
		h.Set("Access-Control-Allow-Headers", strings.Join(allowed, ", "))
		h.Add("Vary", "Access-Control-Request-Headers")
		h.Set("Access-Control-Max-Age", "600")
		if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
			h.Set("Access-Control-Allow-Private-Network", "true")
		}
	}
	w.WriteHeader(http.StatusNoContent)
}
