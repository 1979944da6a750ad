// Package client is the Go client of sluice. It stores and reads blobs, transfers large files in
// parallel, resumes interrupted transfers, and pays for reads.
//
// Put stores an io.Reader, PutFile a file and PutObject a blob of another service. A later PutFile
// or PutObject resumes an interrupted upload. Copy copies a blob within its service, and Move moves
// it to another name there; neither transfers its bytes. Get and GetRange return a Reader, Open
// random access, and FS a file system. Download receives parallel ranges, and DownloadFile a whole
// file or nothing; it can be resumed, too.
//
// Changes follows the changes of blobs from a position on.
//
// CreateSession, Use, OpenChannel and their companions are the single operations of sessions and
// payment channels. A Payer combines them: it keeps a session supplied with chunksets within a
// budget. A Payment in GetOptions pays for reads, with a limit for each read.
//
// A request that failed in a way that may pass is repeated with exponential backoff, if repeating
// it is safe; a redirect is not followed. Responses are checked before they are used, and bounded,
// so that no server makes the client panic, take much memory or send requests without end: the
// error is ErrBadResponse. Whatever is read or written as a whole is compared with the server's
// ETag, and with the blob's SHA-256 if it has one. Every error that the server reported is an
// *Error; errors.Is classifies it, for example as ErrNotFound.
package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// Defaults of Options.
const (
	DefaultMaxAttempts   = 6
	DefaultStallTimeout  = time.Minute
	DefaultMaxRetryAfter = 5 * time.Minute
)

// Options configure a Client. The zero value is ready to use.
type Options struct {
	// Key is the API key that every request carries, or "".
	Key string

	// Transport sends the requests. If it is nil, the client has one of its own, which speaks
	// HTTP/1.1 so that parallel transfers use connections of their own, and sends files without
	// copying their bytes where the system can.
	Transport http.RoundTripper

	// Logger receives a record for each attempt that is repeated. If it is nil, nothing is logged.
	Logger *slog.Logger

	// MaxAttempts is how many times a request is sent at most. 0 means DefaultMaxAttempts, 1 that
	// nothing is repeated.
	MaxAttempts int

	// RetryFor is for how long a request is repeated beyond MaxAttempts, from its first failure on,
	// while the service that this client has reached before cannot be reached, or does not serve:
	// it may be starting again. It applies to requests that MaxAttempts permits to repeat. A
	// request that the service does not serve, and that it wants again only after this time, is
	// not repeated. 0 means that only MaxAttempts counts.
	RetryFor time.Duration

	// OnOutage is called when a request begins to be repeated because of RetryFor. It may be nil.
	// Calls may be concurrent.
	OnOutage func(err error)

	// RootCAs are the certificate authorities for the service, in place of the system's. They have
	// no effect if Transport is set.
	RootCAs *x509.CertPool

	// StallTimeout ends an attempt in which no byte was sent or received, or no response arrived,
	// for this long. 0 means DefaultStallTimeout. Any response other than a blob's content also
	// ends the attempt if it takes five times as long. How slowly content arrives is limited by the
	// context only.
	StallTimeout time.Duration

	// MaxRetryAfter is the longest time that the client waits before it repeats a request because
	// the server demands it. If the server demands more, the request fails, and Error.RetryAfter is
	// the demanded time. 0 means DefaultMaxRetryAfter.
	MaxRetryAfter time.Duration

	// OnWait is called before each wait that the server demands, with its length and the error for
	// which it demands it. It may be nil. Calls may be concurrent.
	OnWait func(time.Duration, error)

	// OnSlow is called when a request has moved no byte and got no response for 3 seconds, with the
	// operation's name, such as "list blobs". It may be nil. Calls may be concurrent.
	OnSlow func(operation string)

	// LimitSend and LimitReceive are called with a number of bytes, at most 8 KiB, before they are
	// sent in a request's body, and after they were received of a blob's content. They may wait
	// until the context ends, which counts for no timeout, and limit the rate in this way. Their
	// errors end the request. They may be nil. Calls may be concurrent.
	LimitSend, LimitReceive func(ctx context.Context, bytes int64) error

	// UserAgent precedes the name of this package in the User-Agent header.
	UserAgent string
}

// Client is a client of one service. It may be used concurrently.
type Client struct {
	base      *url.URL // without a trailing slash
	key       string
	transport http.RoundTripper
	log       *slog.Logger
	attempts  int
	stall     time.Duration
	userAgent string

	maxRetryAfter time.Duration
	onWait        func(time.Duration, error)
	onSlow        func(operation string)

	retryFor time.Duration
	onOutage func(error)
	reached  atomic.Bool // reports whether the service has responded

	limitSend, limitReceive func(context.Context, int64) error
}

// New returns a client for the service at baseURL, for example "http://localhost:9090" or
// "https://host/sluice". It sends no request. It returns an error if baseURL is not an absolute
// HTTP URL without query and fragment, and ErrInvalid if the key or the UserAgent has a line break
// or another control character.
func New(baseURL string, o Options) (*Client, error) {
	base, err := parseBaseURL(baseURL)
	if err != nil {
		return nil, err
	}
	if err := checkHeader(http.Header{"Authorization": {o.Key}, "User-Agent": {o.UserAgent}}); err != nil {
		return nil, fmt.Errorf("client: Options: %w", err)
	}
	c := &Client{
		base:      base,
		key:       o.Key,
		log:       o.Logger,
		attempts:  o.MaxAttempts,
		stall:     o.StallTimeout,
		userAgent: strings.TrimSpace(o.UserAgent + " sluice-go"),
		transport: o.Transport,

		maxRetryAfter: o.MaxRetryAfter,
		onWait:        o.OnWait,
		onSlow:        o.OnSlow,

		retryFor: o.RetryFor,
		onOutage: o.OnOutage,

		limitSend:    o.LimitSend,
		limitReceive: o.LimitReceive,
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.attempts <= 0 {
		c.attempts = DefaultMaxAttempts
	}
	if c.stall <= 0 {
		c.stall = DefaultStallTimeout
	}
	if c.maxRetryAfter <= 0 {
		c.maxRetryAfter = DefaultMaxRetryAfter
	}
	if c.transport == nil {
		c.transport = newTransport(o.RootCAs)
	}
	return c, nil
}

func parseBaseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, fmt.Errorf("client: the base URL cannot be parsed: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("client: the base URL %q must begin with http:// or https:// and a host", s)
	case u.User != nil:
		return nil, errors.New("client: the base URL must not contain a user or password; set Options.Key")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, fmt.Errorf("client: the base URL %q must not have a query or fragment", s)
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	return u, nil
}

func newTransport(roots *x509.CertPool) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	if roots != nil {
		t.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, 64
	t.DisableCompression = true // blobs are never compressed, and their length must be known
	t.WriteBufferSize, t.ReadBufferSize = 64<<10, 64<<10
	t.MaxResponseHeaderBytes = maxHeaderBytes // also of all informational responses together
	useSendFile(t)
	return t
}

// URL returns the base URL, without a trailing slash.
func (c *Client) URL() string { return c.base.String() }

// CloseIdleConnections closes connections that are not in use.
func (c *Client) CloseIdleConnections() {
	if t, ok := c.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}
