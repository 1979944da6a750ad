package webhook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"
)

// ErrURL means that no webhook can have a URL.
var ErrURL = errors.New("the webhook's url")

// errAddress means that nothing may be delivered to an address.
var errAddress = errors.New("webhook: the address is not permitted")

const (
	// maxURL bounds a webhook's URL, in bytes.
	maxURL = 2048
	// timeout is for how long a receiver may take for a delivery, from the lookup of its name on.
	timeout = 15 * time.Second
	// maxResponseHeader bounds a response's header. Of its body, up to drained
	// bytes are read and forgotten, so that the connection can be used again.
	maxResponseHeader, drained = 16 << 10, 4 << 10
)

// reserved are networks of IPv4 and IPv6 that are not public, though netip does not say so.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("192.88.99.0/24"), netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("2001::/23"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("3fff::/20"),
}

// global is the part of IPv6 that is assigned for public unicast addresses. It has no
// addresses that stand for ones of IPv4, as NAT64's do.
var global = netip.MustParsePrefix("2000::/3")

// permits reports whether deliveries may go to an address: a public unicast address, or one in the
// operator's networks.
func (o *Options) permits(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	in := func(network netip.Prefix) bool { return network.Contains(addr) }
	switch {
	case slices.ContainsFunc(o.Networks, in):
		return true
	case addr.Is6() && !global.Contains(addr):
		return false
	}
	return addr.IsGlobalUnicast() && !addr.IsPrivate() && !slices.ContainsFunc(reserved, in)
}

// CheckURL returns an ErrURL if no webhook can have a URL. The addresses of its host's name are
// checked when it is dialled.
func (o *Options) CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return fmt.Errorf("%w is none", ErrURL) // the error has the text
	}
	addr, numeric := netip.ParseAddr(u.Hostname())
	switch {
	case len(text) > maxURL:
		return fmt.Errorf("%w must have at most %d bytes", ErrURL, maxURL)
	case u.Scheme != "https" && (o.HTTPS || u.Scheme != "http") || u.Hostname() == "":
		return fmt.Errorf("%w must begin with https:// and a host (http:// is for local instances)", ErrURL)
	case u.User != nil || u.Fragment != "":
		return fmt.Errorf("%w must have neither a user nor a fragment: deliveries are signed", ErrURL)
	case numeric == nil && !o.permits(addr):
		return fmt.Errorf("%w has an address that is not public, nor in the operator's --webhook-networks", ErrURL)
	}
	return nil
}

// client returns a client for one receiver. It checks each address that it dials, after the name
// was resolved, and follows no redirects. The environment has no influence on it.
func (o *Options) client() *http.Client {
	dialer := &net.Dialer{Timeout: timeout, Resolver: o.Resolver, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		if at, err := netip.ParseAddrPort(address); err != nil || !o.permits(at.Addr()) {
			return errAddress
		}
		return nil
	}}
	dial := dialer.DialContext
	if o.dial != nil {
		dial = o.dial
	}
	transport := &http.Transport{
		DialContext: dial, TLSClientConfig: o.TLS, DisableCompression: true,
		MaxResponseHeaderBytes: maxResponseHeader, MaxConnsPerHost: 1, IdleConnTimeout: time.Minute, Protocols: new(http.Protocols),
	}
	transport.Protocols.SetHTTP1(true) // over HTTP/2 a receiver could send many frames
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}
