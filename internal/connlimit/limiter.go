// Package connlimit bounds an HTTP server's connections, in total and for each client address, so
// that neither file handles nor memory run out.
package connlimit

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Limiter limits an HTTP server's connections over all its listeners. If the limit is reached, a
// new connection evicts the connection that has been idle for the longest time. If none is idle,
// the new connection is refused; while many are being refused, more connections wait to be
// accepted. A second limit applies to the connections of one address, and there only that address's
// connections are evicted. It is safe for concurrent use.
//
// A connection is idle until its first request, and between the end of one handler and the start of
// the next, even if its client is not reading the response or a refused body's rest is being read.
//
// A Limiter uses file handles for at most limit + limit/16 + 16 connections, and one more for each
// listener.
type Limiter struct {
	// These fields must not be changed after the first connection.

	// PerAddress is the limit for one address. The addresses of one IPv6 /64 count as one address.
	// 0 means no limit.
	PerAddress int
	// Exempt are the proxies' networks. A proxy carries many clients: PerAddress does not apply to
	// them, and neither resets nor refusals close their connections.
	Exempt []netip.Prefix
	// RefusalTimeout bounds how long a refused connection is kept. New sets 2 seconds.
	RefusalTimeout time.Duration
	// LingerTimeout bounds how long a closed connection waits for its client to close it too. New
	// sets 10 seconds.
	LingerTimeout time.Duration

	limit    int
	refusal  func(reason Reason, head bool) []byte
	refusals chan struct{} // a semaphore of connections that are being refused

	mu        sync.Mutex
	minIdle   time.Duration // of a connection that is evicted
	open      int
	idle      list.List // of *Conn, longest idle first
	sources   map[netip.Prefix]*source
	lingering pending // connections
	unused    pending // connections without a request that has reached its handler

	refused, crowded, evicted, failed atomic.Int64
}

// source is the network of one client.
type source struct {
	network  netip.Prefix
	open     int
	refusing int       // connections that are being refused
	idle     list.List // of *Conn, longest idle first
}

// Conn is a limited connection. Like the *net.TCPConn in it, it is an io.ReaderFrom, so the kernel
// can send files and write several buffers by one call. The fields from source to idleInSource are
// guarded by the lock of l.
type Conn struct {
	*net.TCPConn
	l            *Limiter
	source       *source // nil: PerAddress does not apply
	shared       bool    // it belongs to a proxy, and its streams to many clients
	removed      bool    // it is not counted anymore
	used         bool    // a request has reached its handler
	lingers      bool    // Close was called, and the client has not closed its end
	active       bool    // the server is reading a request or sending its response
	handlers     int     // running now
	wasted       int     // requests refused or reset less those that were served, at least 0
	since        time.Time
	idle         *list.Element // in the list of idle connections since then; nil: not idle
	idleInSource *list.Element // the same for the source

	ended atomic.Bool // the client has closed its end, or the connection failed
}

// Reason is the reason for which a connection is refused.
type Reason int

// The reasons.
const (
	TooMany            Reason = iota + 1 // the total limit is reached
	TooManyFromAddress                   // the address's limit is reached
)

const (
	// defaultMinIdle leaves a new connection time for its handshake and first request.
	defaultMinIdle        = 5 * time.Second
	defaultRefusalTimeout = 2 * time.Second
	defaultLingerTimeout  = 10 * time.Second
)

// New returns a Limiter of limit connections, which must be at least 1. refusal returns the
// HTTP/1.1 response to a refused connection's first request, without a body if it is a HEAD
// request, or nil to close the connection without a response.
func New(limit int, refusal func(reason Reason, head bool) []byte) *Limiter {
	return &Limiter{
		RefusalTimeout: defaultRefusalTimeout, LingerTimeout: defaultLingerTimeout,
		limit: limit, refusal: refusal, minIdle: defaultMinIdle,
		refusals: make(chan struct{}, limit/16+16), sources: map[netip.Prefix]*source{},
	}
}

// SetMinIdle sets how long a connection must have been idle before it is evicted. The default is
// 5 seconds.
func (l *Limiter) SetMinIdle(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.minIdle = d
}

// Max returns the greatest number of open connections.
func (l *Limiter) Max() int { return l.limit }

// Counts are numbers of connections.
type Counts struct {
	Open    int   // being served, or lingering
	Refused int64 // over the total limit
	Crowded int64 // over the limit of their address
	Evicted int64 // idle ones that were closed for new ones
	Failed  int64 // failed calls of Accept
}

// Counts returns the current counts.
func (l *Limiter) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Counts{l.open, l.refused.Load(), l.crowded.Load(), l.evicted.Load(), l.failed.Load()}
}

// Attach makes server report the state of its connections and provide them to FromContext. It must
// be called before the server serves a Listener of l.
func (l *Limiter) Attach(server *http.Server) {
	server.ConnState = l.connState
	server.ConnContext = func(ctx context.Context, nc net.Conn) context.Context {
		if conn := limited(nc); conn != nil {
			return context.WithValue(ctx, contextKey{}, conn)
		}
		return ctx
	}
}

// contextKey is the key of the *Conn in a request's context.
type contextKey struct{}

// FromContext returns a request's connection, or nil if it is not limited.
func FromContext(ctx context.Context) *Conn {
	conn, _ := ctx.Value(contextKey{}).(*Conn)
	return conn
}

// limited returns the limited connection that nc is, or over which it runs, or nil.
func limited(nc net.Conn) *Conn {
	for {
		switch conn := nc.(type) {
		case *Conn:
			return conn
		case interface{ NetConn() net.Conn }: // of TLS or httpconn
			nc = conn.NetConn()
		default:
			return nil
		}
	}
}

func (l *Limiter) connState(nc net.Conn, state http.ConnState) {
	conn := limited(nc)
	if conn == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch state {
	case http.StateActive:
		conn.active = true
		l.markActive(conn)
	case http.StateIdle:
		conn.active = false
		if conn.idle == nil { // otherwise it is idle since the end of its handler
			l.markIdle(conn)
		}
	case http.StateNew, http.StateHijacked, http.StateClosed: // known from Accept and Close
	}
}

// admit adds a connection. If a limit is reached and no connection can be evicted, it returns the
// reason and, for an address's limit, the source.
func (l *Limiter) admit(tcp *net.TCPConn) (*Conn, *source, Reason) {
	conn := &Conn{TCPConn: tcp, l: l, shared: l.isProxy(tcp.RemoteAddr())}
	network, counts := l.networkOf(tcp.RemoteAddr())
	l.mu.Lock()
	defer l.mu.Unlock()
	if counts {
		conn.source = l.sources[network]
		if conn.source == nil {
			conn.source = &source{network: network}
		}
		if conn.source.open >= l.PerAddress && !l.evict(&conn.source.idle) {
			conn.source.refusing++
			return nil, conn.source, TooManyFromAddress
		}
	}
	if l.open >= l.limit && !l.evict(&l.idle) {
		return nil, nil, TooMany
	}
	l.open++
	l.unused.add()
	if conn.source != nil {
		conn.source.open++
		l.sources[network] = conn.source
	}
	l.markIdle(conn)
	return conn, nil, 0
}

// networkOf returns a client's network, and whether PerAddress applies to it.
func (l *Limiter) networkOf(peer net.Addr) (network netip.Prefix, counts bool) {
	address := addressOf(peer)
	if l.PerAddress <= 0 || !address.IsValid() || l.isProxy(peer) {
		return netip.Prefix{}, false
	}
	bits := address.BitLen()
	if address.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(address, bits).Masked(), true
}

func (l *Limiter) isProxy(peer net.Addr) bool {
	address := addressOf(peer)
	return slices.ContainsFunc(l.Exempt, func(p netip.Prefix) bool { return p.Contains(address) })
}

// addressOf returns a TCP peer's address. It is invalid for other networks.
func addressOf(peer net.Addr) netip.Addr {
	tcp, ok := peer.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}

// evict closes the connection in a list that has been idle for the longest time, and reports
// whether there was one. The caller must hold the lock.
func (l *Limiter) evict(idle *list.List) bool {
	first := idle.Front()
	if first == nil || time.Since(first.Value.(*Conn).since) < l.minIdle {
		return false
	}
	conn := first.Value.(*Conn)
	l.remove(conn)
	l.evicted.Add(1)
	// The server notices the error and calls Close, which then does nothing.
	_ = conn.TCPConn.Close()
	return true
}

// markIdle, markActive and remove record that a connection became idle or active or was closed. The
// caller must hold the lock.
func (l *Limiter) markIdle(conn *Conn) {
	if conn.removed {
		return
	}
	conn.since = time.Now()
	if conn.idle != nil {
		l.idle.MoveToBack(conn.idle)
		if conn.source != nil {
			conn.source.idle.MoveToBack(conn.idleInSource)
		}
		return
	}
	conn.idle = l.idle.PushBack(conn)
	if conn.source != nil {
		conn.idleInSource = conn.source.idle.PushBack(conn)
	}
}

func (l *Limiter) markActive(conn *Conn) {
	if conn.idle == nil {
		return
	}
	l.idle.Remove(conn.idle)
	conn.idle = nil
	if conn.source != nil {
		conn.source.idle.Remove(conn.idleInSource)
		conn.idleInSource = nil
	}
}

func (l *Limiter) remove(conn *Conn) {
	l.markActive(conn)
	if conn.removed {
		return
	}
	conn.removed = true
	conn.use()
	l.open--
	if conn.source != nil {
		conn.source.open--
		if conn.source.open == 0 {
			delete(l.sources, conn.source.network)
		}
	}
}

// Wait waits until no connection lingers, or until ctx ends.
func (l *Limiter) Wait(ctx context.Context) { l.lingering.await(ctx, &l.mu) }

// WaitForRequests waits until the first request of every open connection has reached its handler,
// or until ctx ends. A server that no longer accepts connections calls it before it shuts down:
// http.Server.Shutdown closes a connection if it has read a request and the handler has not begun.
func (l *Limiter) WaitForRequests(ctx context.Context) { l.unused.await(ctx, &l.mu) }
