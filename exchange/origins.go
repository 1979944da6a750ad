package exchange

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"unicode/utf8"
)

// Local has the hosts and origins that a local instance accepts in addition to loopback.
type Local struct {
	AllowedHosts  []string // host names and addresses, valid by CheckAllowedHost
	CORSOrigins   []string // origins of web pages, valid by CheckOrigin
	OpenToNetwork bool     // all hosts that are IP addresses
}

// originPolicy decides which hosts and which web pages are served.
type originPolicy interface {
	// admit returns ErrForeignHost or ErrForeignOrigin if the request is refused. It sets the
	// fields that let pages read the response, and in it the fields that are exposed. host accepts
	// more hosts, and may be nil.
	admit(r *http.Request, response *Fields, exposed string, host func(string) bool) error
}

// anyOrigin is a hosted network's policy. There are no cookies or other credentials that a browser
// would add by itself, so a page can do no more than any program.
type anyOrigin struct{}

func (anyOrigin) admit(_ *http.Request, response *Fields, exposed string, _ func(string) bool) error {
	response.Set("Access-Control-Allow-Origin", "*")
	response.Set("Access-Control-Expose-Headers", exposed)
	response.Set("Cross-Origin-Resource-Policy", "cross-origin")
	return nil
}

// localOrigins is a local instance's policy, which needs no credentials. It protects the instance
// from the pages in the browser of its user: it accepts requests for its own host names only
// (against DNS rebinding), and serves only its own pages and the pages of allowed origins.
type localOrigins struct {
	hosts   map[string]bool // allowed in addition to loopback, as HostOnly returns them
	origins map[origin]bool // allowed in addition to loopback
	anyIP   bool            // every IP address is an allowed host
}

func newLocalOrigins(local Local) localOrigins {
	p := localOrigins{hosts: map[string]bool{}, origins: map[origin]bool{}, anyIP: local.OpenToNetwork}
	for _, h := range local.AllowedHosts {
		p.hosts[HostOnly(h)] = true
	}
	for _, text := range local.CORSOrigins {
		if o, ok := parseOrigin(text); ok {
			p.origins[o] = true
		}
	}
	return p
}

// admit lets pages of allowed origins read every response, including refusals.
func (p localOrigins) admit(r *http.Request, response *Fields, exposed string, host func(string) bool) error {
	response.Add("Vary", "Origin") // the first value of Vary
	// Other pages must not embed content that is accessible on this machine.
	response.Set("Cross-Origin-Resource-Policy", "same-site")
	origins := r.Header.Values("Origin")
	foreign := len(origins) > 1 || len(origins) == 1 && !p.allowsOrigin(origins[0], r)
	if len(origins) == 1 && !foreign {
		response.Set("Access-Control-Allow-Origin", origins[0])
		response.Set("Timing-Allow-Origin", origins[0])
		response.Set("Access-Control-Expose-Headers", exposed)
	}
	switch {
	case !p.allowsHost(HostOnly(r.Host)) && (host == nil || !host(HostOnly(r.Host))):
		return ErrForeignHost
	case foreign:
		return ErrForeignOrigin
	default:
		return nil
	}
}

func (p localOrigins) allowsHost(host string) bool {
	if IsLoopback(host) || p.hosts[host] {
		return true
	}
	_, err := netip.ParseAddr(host)
	return p.anyIP && err == nil
}

// allowsOrigin reports whether a page of this origin may send the request.
func (p localOrigins) allowsOrigin(text string, r *http.Request) bool {
	o, ok := parseOrigin(text)
	if !ok {
		return false
	}
	if p.origins[o] {
		return true
	}
	if o.scheme != "http" && o.scheme != "https" {
		return false
	}
	return IsLoopback(o.host) || p.isOwn(o, r)
}

// isOwn reports whether the page has the host and port to which the request was sent, such as the
// console. Behind a proxy a page's scheme may be the proxy's.
func (p localOrigins) isOwn(o origin, r *http.Request) bool {
	own, ok := parseOrigin(o.scheme + "://" + r.Host)
	return ok && own == o && p.allowsHost(o.host) && (r.TLS == nil || o.scheme == "https")
}

// origin is a page's origin (RFC 6454).
type origin struct {
	scheme string // in lower case
	host   string // as HostOnly returns it
	port   string // "" for the scheme's default
}

// parseOrigin parses the header Origin's value.
func parseOrigin(text string) (origin, bool) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" {
		return origin{}, false
	}
	o := origin{u.Scheme, HostOnly(u.Host), u.Port()}
	if o.scheme == "http" && o.port == "80" || o.scheme == "https" && o.port == "443" {
		o.port = ""
	}
	return o, true
}

// HostOnly returns the host of "host", "host:port", "address" or "[address]:port": a name in lower
// case and without a trailing dot, or an address in its shortest form and without brackets.
func HostOnly(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	}
	if strings.Contains(host, ":") { // an IPv4 address has one form
		if addr, err := netip.ParseAddr(host); err == nil {
			return addr.String()
		}
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// CheckAllowedHost returns an error if no request can have this host, as one of Local.AllowedHosts.
func CheckAllowedHost(host string) error {
	if _, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")); err == nil {
		return nil
	}
	if host == "" || strings.ContainsAny(host, ":/*[]@ ") {
		return errors.New("want a host name or an IP address, without scheme, port or pattern")
	}
	return checkASCII(host)
}

// CheckOrigin returns an error if no page can have this origin, as one of Local.CORSOrigins.
func CheckOrigin(text string) error {
	if _, ok := parseOrigin(text); !ok || strings.Contains(text, "*") {
		return errors.New("want a scheme and a host, such as https://app.example.org")
	}
	return checkASCII(text)
}

// checkASCII refuses a name that browsers send in another form (RFC 5891).
func checkASCII(name string) error {
	for i := range len(name) {
		if name[i] >= utf8.RuneSelf {
			return errors.New("browsers send a name that is not ASCII in another form, such as xn--bcher-kva.example: write that")
		}
	}
	return nil
}
