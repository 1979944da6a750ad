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
)

// newTransport makes the connections of a store. One on which nothing moves for
// the time of stall, in the middle of a request, is given up.
func newTransport(caFile string, stall time.Duration) (*http.Transport, error) {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &watchedConn{c, stall}, nil
		},
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 64,
		// Servers close idle connections too, and a request that meets such an
		// end has to be sent again.
		IdleConnTimeout: 15 * time.Second,
		// Bytes are handed out as they are stored.
		DisableCompression: true,
		TLSClientConfig:    &tls.Config{MinVersion: tls.VersionTLS12},
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

// trusted are the authorities of the system and those of the file.
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
		return nil, fmt.Errorf("the file %s holds no certificate in PEM", caFile)
	}
	return roots, nil
}

// watchedConn is a connection that fails when nothing moves for a while. A
// write also puts the end of a waiting read off: who uploads slowly waits long
// for the reply.
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

// lender lends the body of a request to the transport beneath for as long as
// the request lasts. A transport may go on reading a body after it has
// returned; by then the body may be on its second way out, or its buffer in
// use for another object.
type lender struct {
	http.RoundTripper
}

func (l lender) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return l.RoundTripper.RoundTrip(r)
	}
	body := &lentBody{src: r.Body}
	r = r.WithContext(r.Context())
	r.Body = body
	resp, err := l.RoundTripper.RoundTrip(r)
	if err != nil {
		body.takeBack()
		return nil, err
	}
	// To end the upload is to end the connection: not before the reply is read.
	resp.Body = replyBody{resp.Body, body}
	return resp, nil
}

// replyBody ends the loan when the reply is closed.
type replyBody struct {
	io.ReadCloser
	lent *lentBody
}

func (b replyBody) Close() error {
	b.lent.takeBack()
	return b.ReadCloser.Close()
}

// errTakenBack is what a late reader of a body gets.
var errTakenBack = errors.New("s3: the request is over")

// lentBody reads src until it is taken back.
type lentBody struct {
	mu   sync.Mutex
	src  io.ReadCloser
	back bool
}

func (b *lentBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.back {
		return 0, errTakenBack
	}
	return b.src.Read(p)
}

func (b *lentBody) Close() error { return b.src.Close() }

// takeBack returns when nobody reads src any more.
func (b *lentBody) takeBack() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.back = true
}
