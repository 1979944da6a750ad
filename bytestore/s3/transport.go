package s3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"sluice/internal/reconnect"
)

// newTransport returns a store's transport. A connection on which nothing is sent or received
// during a request for the time of stall is closed.
func newTransport(caFile string, stall time.Duration) (*http.Transport, error) {
	d := &dialer{gate: reconnect.New(opensAtOnce), stall: stall, tls: &tls.Config{MinVersion: tls.VersionTLS12}}
	t := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         d.dial,
		DialTLSContext:      d.dialTLS,
		TLSHandshakeTimeout: connectTimeout, // through a proxy
		MaxIdleConnsPerHost: 64,
		// Servers close idle connections as well, and a request on a connection that is being
		// closed must be sent again.
		IdleConnTimeout: 15 * time.Second,
		// Bytes must arrive as they are stored.
		DisableCompression: true,
		TLSClientConfig:    d.tls,
	}
	if caFile != "" {
		roots, err := trusted(caFile)
		if err != nil {
			return nil, err
		}
		t.TLSClientConfig.RootCAs = roots
	}
	return t, nil
}

// trusted returns the system's certificate authorities and the file's.
func trusted(caFile string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("the file of certificate authorities: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("the system's certificate authorities: %w", err)
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("the file %s contains no PEM certificate", caFile)
	}
	return roots, nil
}

const (
	// opensAtOnce is how many connections are opened at once to a server that answers.
	opensAtOnce = 16
	// connectTimeout bounds opening a connection, and its TLS handshake, unless the server was too
	// slow before.
	connectTimeout = 10 * time.Second
)

// dialer opens connections.
type dialer struct {
	gate  *reconnect.Gate
	stall time.Duration
	tls   *tls.Config
}

// dial opens a connection without TLS, or one to a proxy.
func (d *dialer) dial(ctx context.Context, network, addr string) (conn net.Conn, err error) {
	err = d.open(ctx, func(ctx context.Context) error {
		conn, err = d.connect(ctx, network, addr)
		return err
	})
	return conn, err
}

// dialTLS opens a connection with TLS.
func (d *dialer) dialTLS(ctx context.Context, network, addr string) (conn net.Conn, err error) {
	config := d.tls.Clone()
	if config.ServerName, _, err = net.SplitHostPort(addr); err != nil {
		return nil, err
	}
	err = d.open(ctx, func(ctx context.Context) error {
		below, err := d.connect(ctx, network, addr)
		if err != nil {
			return err
		}
		secure := tls.Client(below, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = below.Close() // nothing was sent on it
			return err
		}
		conn = secure
		return nil
	})
	return conn, err
}

// open calls connect when an attempt may begin.
func (d *dialer) open(ctx context.Context, connect func(context.Context) error) error {
	attempt, err := d.gate.Enter(ctx)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, d.gate.Timeout(connectTimeout))
	defer cancel()
	err = connect(limited)
	shown := err
	if ctx.Err() != nil {
		shown = context.Canceled // the caller's time is over, not the server's
	} else if limited.Err() != nil {
		shown = limited.Err()
	}
	attempt.End(shown)
	return err
}

func (d *dialer) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &watchedConn{conn, d.stall}, nil
}

// watchedConn is a connection that fails if nothing is sent or received for a while. A write also
// extends a pending read's deadline, because the response to a slow upload arrives late.
type watchedConn struct {
	net.Conn
	stall time.Duration
}

func (c *watchedConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.stall)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c *watchedConn) Write(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.stall)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// revokingTransport revokes a request's body when the request ends. A transport may continue to
// read a body after it has returned; by then the body may be in use for a retry, or its buffer for
// another object.
type revokingTransport struct {
	http.RoundTripper
}

func (l revokingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return l.RoundTripper.RoundTrip(r)
	}
	body := &revocableBody{src: r.Body}
	r = r.WithContext(r.Context())
	r.Body = body
	resp, err := l.RoundTripper.RoundTrip(r)
	if err != nil {
		body.revoke()
		return nil, err
	}
	// Ending the upload ends the connection, so it must not happen before the response is read.
	resp.Body = responseBody{resp.Body, body}
	return resp, nil
}

// responseBody revokes the request body when the response is closed.
type responseBody struct {
	io.ReadCloser
	lent *revocableBody
}

func (b responseBody) Close() error {
	b.lent.revoke()
	return b.ReadCloser.Close()
}

// errRevoked is returned to a request body's late reader.
var errRevoked = errors.New("s3: the request is over")

// revocableBody reads src until it is revoked.
type revocableBody struct {
	mu      sync.Mutex
	src     io.ReadCloser
	revoked bool
}

func (b *revocableBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.revoked {
		return 0, errRevoked
	}
	return b.src.Read(p)
}

func (b *revocableBody) Close() error { return b.src.Close() }

// revoke makes further reads fail. It returns when no read is in progress.
func (b *revocableBody) revoke() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.revoked = true
}
