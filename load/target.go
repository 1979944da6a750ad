package load

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
)

// Target is a server that requests are sent to.
type Target struct {
	address string      // host:port
	tls     *tls.Config // nil for plain TCP
	base    string      // escaped path, without a slash at its end
	fields  string      // header fields of every request
	timeout time.Duration
}

// NewTarget returns the server at a base URL. The key, unless it is empty, and the user agent are
// sent with each request. The timeout ends a request for which no byte was sent or received for so
// long.
func NewTarget(baseURL, key, userAgent string, timeout time.Duration) (*Target, error) {
	u, err := url.Parse(baseURL)
	if err != nil {
		return nil, err
	}
	t := &Target{base: strings.TrimRight(u.EscapedPath(), "/"), timeout: timeout}
	port := u.Port()
	switch u.Scheme {
	case "http":
		if port == "" {
			port = "80"
		}
	case "https":
		if port == "" {
			port = "443"
		}
		t.tls = &tls.Config{ServerName: u.Hostname(), NextProtos: []string{"http/1.1"}}
	default:
		return nil, fmt.Errorf("the URL %q must begin with http:// or https://", baseURL)
	}
	t.address = net.JoinHostPort(u.Hostname(), port)
	t.fields = " HTTP/1.1\r\nHost: " + u.Host + "\r\nUser-Agent: " + userAgent + "\r\n"
	if key != "" {
		t.fields += "Authorization: Bearer " + key + "\r\n"
	}
	if strings.ContainsAny(u.Host+userAgent+key, "\r\n") {
		return nil, fmt.Errorf("the host, the user agent or the key contains a line break")
	}
	return t, nil
}

// Trust makes these authorities' certificates valid, in place of the system's.
func (t *Target) Trust(authorities *x509.CertPool) {
	if t.tls != nil {
		t.tls.RootCAs = authorities
	}
}

// dial opens a connection.
func (t *Target) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	var plain net.Dialer
	if t.tls == nil {
		return plain.DialContext(ctx, "tcp", t.address)
	}
	secure := tls.Dialer{NetDialer: &plain, Config: t.tls}
	return secure.DialContext(ctx, "tcp", t.address)
}
