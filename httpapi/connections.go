package httpapi

import (
	"bytes"
	"container/list"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"sluice/wire"
)

// Connections caps the connections of an HTTP server, over all its listeners,
// so that neither file handles nor memory run out. At the cap the connection
// that has been quiet for longest is closed for a new one. When none is quiet
// the new one gets a 503; while many get theirs, further ones wait to be
// accepted. The connections of one address have a cap of their own, at which
// one of theirs is closed or the new one gets a 429. Its methods may be called
// from many goroutines.
//
// A connection is quiet from its start to its first request, and from the end
// of one handler to the start of the next: also while its client does not read
// the reply, and while what is left of a refused body is read off.
//
// It holds file handles for at most limit + limit/16 + 16 connections, and one
// more for each listener.
type Connections struct {
	// AnyOrigin lets the pages of every origin read a refusal. It is set
	// before the first connection, as is all that follows.
	AnyOrigin bool
	// PerAddress is the greatest number of connections from one address; those
	// of a /64 of IPv6 count as one address. 0: no such cap.
	PerAddress int
	// Exempt are the networks of proxies, each of which brings many clients: to
	// them PerAddress does not apply, and no number of resets cuts their connections.
	Exempt []netip.Prefix

	limit     int
	quiet     time.Duration // at least, of one that is closed for another
	patience  time.Duration // with one that is refused
	lingering time.Duration // at most, for the client to close its end
	refusals  chan struct{} // one for each that is refused at present

	mu       sync.Mutex
	open     int
	idle     list.List // of *connection, the longest quiet one first
	sources  map[netip.Prefix]*source
	closing  int           // connections that linger
	allEnded chan struct{} // closed when none lingers any more; nil: nobody waits for it

	refused, crowded, evicted, failed atomic.Int64
}

// source is the network that the connections of one client come from.
type source struct {
	network  netip.Prefix
	open     int
	refusing int       // connections that are refused at present
	idle     list.List // of *connection, the longest quiet one first
}

// quietTime is how long a connection may be without a request before it can be
// closed for another: a new one needs it for its handshake.
const quietTime = 5 * time.Second

// refusalTime is how long a connection is kept to be refused.
const refusalTime = 2 * time.Second

// NewConnections returns a cap of limit connections, at least 1.
func NewConnections(limit int) *Connections {
	return &Connections{
		limit: limit, quiet: quietTime, patience: refusalTime, lingering: lingerTime,
		refusals: make(chan struct{}, limit/16+16), sources: map[netip.Prefix]*source{},
	}
}

// ConnectionCounts says how many connections there are and were.
type ConnectionCounts struct {
	Open    int   // served now, or read off after a refusal
	Refused int64 // were beyond the cap of all: had a 503, or with TLS nothing
	Crowded int64 // were beyond the cap of their address: had a 429, or nothing
	Evicted int64 // were quiet, and closed for a new one
	Failed  int64 // attempts to accept that failed
}

// Counts returns the counts of now.
func (c *Connections) Counts() ConnectionCounts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return ConnectionCounts{c.open, c.refused.Load(), c.crowded.Load(), c.evicted.Load(), c.failed.Load()}
}

// Attach makes server tell which of its connections are quiet. It must be
// called before the server serves a listener of c.
func (c *Connections) Attach(server *http.Server) {
	server.ConnState = c.connState
	server.ConnContext = func(ctx context.Context, nc net.Conn) context.Context {
		if conn := underCap(nc); conn != nil {
			return context.WithValue(ctx, connectionKey{}, conn)
		}
		return ctx
	}
}

// connectionKey is the key of the *connection in the context of a request.
type connectionKey struct{}

// connectionOf returns the connection that a request came on; nil when it is
// under no cap.
func connectionOf(ctx context.Context) *connection {
	conn, _ := ctx.Value(connectionKey{}).(*connection)
	return conn
}

// underCap returns the connection under the cap that nc is, or speaks TLS on.
func underCap(nc net.Conn) *connection {
	if secure, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = secure.NetConn()
	}
	conn, _ := nc.(*connection)
	return conn
}

// Listener puts the connections of l, which are TCP ones, under the cap. secure
// says that TLS is spoken on them: there a refusal is a closed connection. Only
// the end of l ends it: every other error of Accept is a temporary one, which
// http.Server waits out.
func (c *Connections) Listener(l net.Listener, secure bool) net.Listener {
	return &cappedListener{Listener: l, c: c, secure: secure}
}

func (c *Connections) connState(nc net.Conn, state http.ConnState) {
	conn := underCap(nc)
	if conn == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateActive:
		conn.active = true
		c.busy(conn)
	case http.StateIdle:
		conn.active = false
		c.rest(conn)
	case http.StateNew, http.StateHijacked, http.StateClosed: // known here already
	}
}

// admit takes a connection in. When a cap is reached and no connection under it
// is quiet it returns the row of the refusal, and the source at whose cap that
// was.
func (c *Connections) admit(tcp *net.TCPConn) (*connection, *source, *errorRow) {
	conn := &connection{TCPConn: tcp, c: c, shared: c.isProxy(tcp.RemoteAddr())}
	network, counts := c.networkOf(tcp.RemoteAddr())
	c.mu.Lock()
	defer c.mu.Unlock()
	if counts {
		conn.source = c.sources[network]
		if conn.source == nil {
			conn.source = &source{network: network}
		}
		if conn.source.open >= c.PerAddress && !c.evict(&conn.source.idle) {
			conn.source.refusing++
			return nil, conn.source, &tooManyFromAddress
		}
	}
	if c.open >= c.limit && !c.evict(&c.idle) {
		return nil, nil, &tooManyConnections
	}
	c.open++
	if conn.source != nil {
		conn.source.open++
		c.sources[network] = conn.source
	}
	c.rest(conn)
	return conn, nil, nil
}

// networkOf returns the network that one client has the addresses of, and
// whether its connections are capped.
func (c *Connections) networkOf(peer net.Addr) (network netip.Prefix, counts bool) {
	address := addressOf(peer)
	if c.PerAddress <= 0 || !address.IsValid() || c.isProxy(peer) {
		return netip.Prefix{}, false
	}
	bits := address.BitLen()
	if address.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(address, bits).Masked(), true
}

// isProxy reports whether peer is one of the proxies.
func (c *Connections) isProxy(peer net.Addr) bool {
	address := addressOf(peer)
	return slices.ContainsFunc(c.Exempt, func(p netip.Prefix) bool { return p.Contains(address) })
}

// addressOf returns the address of a peer; an invalid one when TCP is not spoken.
func addressOf(peer net.Addr) netip.Addr {
	tcp, ok := peer.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}

// evict closes the connection of a list that has been quiet for longest, and
// reports whether there was one. The lock is held.
func (c *Connections) evict(idle *list.List) bool {
	first := idle.Front()
	if first == nil || time.Since(first.Value.(*connection).since) < c.quiet {
		return false
	}
	conn := first.Value.(*connection)
	c.leave(conn)
	c.evicted.Add(1)
	// The server finds it closed, and closes it once more.
	_ = conn.TCPConn.Close()
	return true
}

// rest notes that a connection became quiet, busy that it is so no longer,
// leave that it is closed. The lock is held.
func (c *Connections) rest(conn *connection) {
	if conn.left {
		return
	}
	conn.since = time.Now()
	if conn.place != nil { // from the end of the handler
		c.idle.MoveToBack(conn.place)
		if conn.source != nil {
			conn.source.idle.MoveToBack(conn.placeInSource)
		}
		return
	}
	conn.place = c.idle.PushBack(conn)
	if conn.source != nil {
		conn.placeInSource = conn.source.idle.PushBack(conn)
	}
}

func (c *Connections) busy(conn *connection) {
	if conn.place == nil {
		return
	}
	c.idle.Remove(conn.place)
	conn.place = nil
	if conn.source != nil {
		conn.source.idle.Remove(conn.placeInSource)
		conn.placeInSource = nil
	}
}

func (c *Connections) leave(conn *connection) {
	c.busy(conn)
	if conn.left {
		return
	}
	conn.left = true
	c.open--
	if conn.source != nil {
		conn.source.open--
		if conn.source.open == 0 {
			delete(c.sources, conn.source.network)
		}
	}
}

// connection is one under the cap. It is an io.ReaderFrom as the connection in
// it is, which has the kernel send files. What follows c is guarded by c's lock.
type connection struct {
	*net.TCPConn
	c             *Connections
	source        *source // nil: the cap of each address does not apply
	shared        bool    // it is a proxy's: its streams are of many clients
	left          bool
	lingers       bool // Close was called, and its end is awaited
	active        bool // the server has begun to read a request, and not ended the reply
	handlers      int  // at work
	resets        int  // streams that were reset, less those that were not; at least 0
	since         time.Time
	place         *list.Element // among the quiet, since then; nil while it is not
	placeInSource *list.Element // the same of its source

	over atomic.Bool // the client has closed its end, or the connection failed
}

// Read reads, and notes the end of what the client sends.
func (conn *connection) Read(p []byte) (int, error) {
	n, err := conn.TCPConn.Read(p)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		conn.over.Store(true)
	}
	return n, err
}

// maxResets is how many more streams of a connection may be reset by the client
// while a handler works for them than are served, before the connection is cut. A
// proxy's is never cut: one of its clients would end the requests of the others.
const maxResets = 500

// begin notes that a handler begins, end that it has ended: what is left of the
// reply then is little. reset says that the client has reset the stream
// meanwhile. A nil connection is under no cap.
func (conn *connection) begin() {
	if conn == nil {
		return
	}
	conn.c.mu.Lock()
	defer conn.c.mu.Unlock()
	conn.handlers++
	conn.c.busy(conn)
}

func (conn *connection) end(reset bool) {
	if conn == nil {
		return
	}
	conn.c.mu.Lock()
	defer conn.c.mu.Unlock()
	conn.handlers--
	if conn.handlers == 0 {
		conn.c.rest(conn)
	}
	switch {
	case conn.shared:
	case !reset:
		conn.resets = max(0, conn.resets-1)
	case conn.resets < maxResets:
		conn.resets++
	default:
		// The server finds it closed, and ends what is left of it.
		_ = conn.TCPConn.Close()
	}
}

type cappedListener struct {
	net.Listener
	c      *Connections
	secure bool
}

// Accept returns the next connection for which there is room.
func (l *cappedListener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, l.c.acceptFailed(err)
		}
		tcp := accepted.(*net.TCPConn)
		conn, crowd, row := l.c.admit(tcp)
		if row == nil {
			// A connection that is closed already is for the server to find.
			_ = limitUnsent(tcp)
			return conn, nil
		}
		l.refuse(tcp, crowd, *row)
	}
}

// refuse refuses a connection; crowd is the source at whose cap that is, if any.
func (l *cappedListener) refuse(tcp *net.TCPConn, crowd *source, row errorRow) {
	answered := !l.secure
	if crowd == nil {
		l.c.refused.Add(1)
	} else {
		l.c.crowded.Add(1)
		// One address must not take all the places of refusals: others would
		// wait for theirs.
		answered = answered && l.c.refusingOf(crowd) <= cap(l.c.refusals)/8
	}
	if !answered {
		_ = tcp.Close() // nothing was sent on it that could be lost
		l.c.refusalEnds(crowd)
		return
	}
	l.c.refusals <- struct{}{} // not for longer than refusalTime
	go func() {
		defer func() {
			<-l.c.refusals
			l.c.refusalEnds(crowd)
		}()
		refuse(tcp, l.c.patience, row, l.c.AnyOrigin)
	}()
}

func (c *Connections) refusingOf(s *source) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.refusing
}

func (c *Connections) refusalEnds(s *source) {
	if s == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.refusing--
}

// acceptFailed makes an error of Accept a temporary one, unless the listener is
// closed. Where file handles have run out, a quiet connection gives its own.
func (c *Connections) acceptFailed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return err
	}
	c.failed.Add(1)
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.evict(&c.idle)
	}
	return &temporaryError{err}
}

// temporaryError is a net.Error that http.Server takes for one that passes.
type temporaryError struct{ error }

// Unwrap returns the error of the system.
func (e *temporaryError) Unwrap() error { return e.error }

// Timeout implements net.Error.
func (e *temporaryError) Timeout() bool { return false }

// Temporary tells http.Server to go on.
func (e *temporaryError) Temporary() bool { return true }

// refuse answers what comes first on a connection with the error of a row and
// closes it. A client that is gone, or too slow, gets no answer.
func refuse(conn *net.TCPConn, patience time.Duration, row errorRow, anyOrigin bool) {
	// Nobody is left to tell of an error, here and below.
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return
	}
	// An answer before the request would not be taken for one.
	var start [len("HEAD ")]byte
	if _, err := io.ReadFull(conn, start[:]); err != nil {
		return
	}
	reply, err := refusal(row, string(start[:]) == "HEAD ", anyOrigin)
	if err != nil {
		return
	}
	if _, err := conn.Write(reply); err != nil {
		return
	}
	readOff(conn, refusalDrain, patience)
}

// refusalDrain is how much of a refused request is read off.
const refusalDrain = 256 << 10

// The rows of what no handler ever saw.
var (
	tooManyConnections = errorRow{status: http.StatusServiceUnavailable, code: wire.CodeOverloaded, detail: "too many connections are open", retryAfter: 1}
	tooManyFromAddress = errorRow{status: http.StatusTooManyRequests, code: wire.CodeTooManyAtOnce, detail: "too many connections from this address are open", retryAfter: 1}
)

// refusal makes the reply that a connection beyond a cap gets.
func refusal(row errorRow, head, anyOrigin bool) ([]byte, error) {
	detail := sentence(row.detail)
	p := wire.Problem{
		Type:      "urn:sluice:error:" + string(row.code),
		Title:     http.StatusText(row.status),
		Status:    row.status,
		Detail:    detail,
		Error:     detail,
		Code:      string(row.code),
		RequestID: rand.Text(),
	}
	if row.status == http.StatusServiceUnavailable {
		retryable := true
		p.Retryable = &retryable
	}
	body, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	body = append(body, '\n')
	reply := http.Response{
		StatusCode: row.status,
		ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{
			"Content-Type":           {"application/problem+json"},
			"Cache-Control":          {"no-store"},
			"X-Content-Type-Options": {"nosniff"},
			"Retry-After":            {strconv.Itoa(row.retryAfter)},
			wire.HeaderRequestID:     {p.RequestID},
		},
		ContentLength: int64(len(body)),
		Body:          io.NopCloser(bytes.NewReader(body)),
		Close:         true,
	}
	if anyOrigin {
		reply.Header.Set("Access-Control-Allow-Origin", "*")
		reply.Header.Set("Access-Control-Expose-Headers", corsResponseHeaders)
	}
	if head {
		reply.Request = &http.Request{Method: http.MethodHead}
	}
	var out bytes.Buffer
	err = reply.Write(&out)
	return out.Bytes(), err
}
