package httpapi

import (
	"bytes"
	"container/list"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/http"
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
// accepted. Its methods may be called from many goroutines.
//
// It holds file handles for at most limit + limit/16 + 16 connections, and one
// more for each listener.
type Connections struct {
	// AnyOrigin lets the pages of every origin read a 503. It is set before
	// the first connection.
	AnyOrigin bool

	limit    int
	quiet    time.Duration // at least, of one that is closed for another
	patience time.Duration // with one that gets a 503
	refusals chan struct{} // one for each that gets it

	mu   sync.Mutex
	open int
	idle list.List // of *connection, the longest quiet one first

	refused, evicted, failed atomic.Int64
}

// quietTime is how long a connection may be without a request before it can be
// closed for another: a new one needs it for its handshake.
const quietTime = 5 * time.Second

// refusalTime is how long a connection is kept to get its 503.
const refusalTime = 2 * time.Second

// NewConnections gives a cap of limit connections, at least 1.
func NewConnections(limit int) *Connections {
	return &Connections{limit: limit, quiet: quietTime, patience: refusalTime, refusals: make(chan struct{}, limit/16+16)}
}

// ConnectionCounts says how many connections there are and were.
type ConnectionCounts struct {
	Open    int   // served now
	Refused int64 // had a 503, or with TLS nothing
	Evicted int64 // were quiet, and closed for a new one
	Failed  int64 // attempts to accept that failed
}

// Counts gives the counts of now.
func (c *Connections) Counts() ConnectionCounts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return ConnectionCounts{c.open, c.refused.Load(), c.evicted.Load(), c.failed.Load()}
}

// Listener puts the connections of l, which are TCP ones, under the cap. secure
// says that TLS is spoken on them: there a refusal is a closed connection. Only
// the end of l ends it: every other error of Accept is a temporary one, which
// http.Server waits out.
func (c *Connections) Listener(l net.Listener, secure bool) net.Listener {
	return &cappedListener{Listener: l, c: c, secure: secure}
}

// ConnState belongs into http.Server.ConnState: it tells which connections are
// quiet.
func (c *Connections) ConnState(nc net.Conn, state http.ConnState) {
	if secure, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = secure.NetConn()
	}
	conn, ok := nc.(*connection)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateActive:
		c.busy(conn)
	case http.StateIdle:
		c.rest(conn)
	case http.StateNew, http.StateHijacked, http.StateClosed: // known here already
	}
}

// admit takes a connection in, unless the cap is reached and no other is quiet.
func (c *Connections) admit(tcp *net.TCPConn) (*connection, bool) {
	conn := &connection{TCPConn: tcp, c: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open >= c.limit && !c.evict() {
		return nil, false
	}
	c.open++
	c.rest(conn)
	return conn, true
}

// evict closes the connection that has been quiet for longest, and reports
// whether there was one. The lock is held.
func (c *Connections) evict() bool {
	first := c.idle.Front()
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
	c.busy(conn)
	if !conn.left {
		conn.since = time.Now()
		conn.place = c.idle.PushBack(conn)
	}
}

func (c *Connections) busy(conn *connection) {
	if conn.place != nil {
		c.idle.Remove(conn.place)
		conn.place = nil
	}
}

func (c *Connections) leave(conn *connection) {
	c.busy(conn)
	if !conn.left {
		conn.left = true
		c.open--
	}
}

// connection is one under the cap. It is an io.ReaderFrom as the connection in
// it is, which has the kernel send files.
type connection struct {
	*net.TCPConn
	c     *Connections
	left  bool
	since time.Time     // quiet for
	place *list.Element // among the quiet; nil while a request is served
}

// Close closes the connection and gives its place away.
func (conn *connection) Close() error {
	conn.c.mu.Lock()
	conn.c.leave(conn)
	conn.c.mu.Unlock()
	return conn.TCPConn.Close()
}

type cappedListener struct {
	net.Listener
	c      *Connections
	secure bool
}

// Accept gives the next connection for which there is room.
func (l *cappedListener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, l.c.acceptFailed(err)
		}
		tcp := accepted.(*net.TCPConn)
		if conn, ok := l.c.admit(tcp); ok {
			// A connection that is closed already is for the server to find.
			_ = limitUnsent(tcp)
			return conn, nil
		}
		l.c.refused.Add(1)
		if l.secure {
			_ = tcp.Close() // nothing was sent on it that could be lost
			continue
		}
		l.c.refusals <- struct{}{} // not for longer than refusalTime
		go func() {
			defer func() { <-l.c.refusals }()
			refuse(tcp, l.c.patience, l.c.AnyOrigin)
		}()
	}
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
		c.evict()
	}
	return &temporaryError{err}
}

// temporaryError is a net.Error that http.Server takes for one that passes.
type temporaryError struct{ error }

// Unwrap gives the error of the system.
func (e *temporaryError) Unwrap() error { return e.error }

// Timeout implements net.Error.
func (e *temporaryError) Timeout() bool { return false }

// Temporary tells http.Server to go on.
func (e *temporaryError) Temporary() bool { return true }

// refuse answers what comes first on a connection with 503 and closes it. A
// client that is gone, or too slow, gets none.
func refuse(conn *net.TCPConn, patience time.Duration, anyOrigin bool) {
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
	reply, err := refusal(string(start[:]) == "HEAD ", anyOrigin)
	if err != nil {
		return
	}
	if _, err := conn.Write(reply); err != nil {
		return
	}
	// To close with bytes unread would take the answer back from the client.
	if err := conn.CloseWrite(); err != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, conn, refusalDrain)
}

// refusalDrain is how much of a refused request is read off.
const refusalDrain = 256 << 10

// tooManyConnections is the row of what no handler ever saw.
var tooManyConnections = errorRow{status: http.StatusServiceUnavailable, code: wire.CodeOverloaded, detail: "too many connections are open", retryAfter: 1}

// refusal makes the reply that a connection beyond the cap gets.
func refusal(head, anyOrigin bool) ([]byte, error) {
	row, detail, retryable := tooManyConnections, sentence(tooManyConnections.detail), true
	p := wire.Problem{
		Type:      "urn:sluice:error:" + string(row.code),
		Title:     http.StatusText(row.status),
		Status:    row.status,
		Detail:    detail,
		Error:     detail,
		Code:      string(row.code),
		RequestID: rand.Text(),
		Retryable: &retryable,
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
			"Content-Type":       {"application/problem+json"},
			"Cache-Control":      {"no-store"},
			"Retry-After":        {strconv.Itoa(row.retryAfter)},
			wire.HeaderRequestID: {p.RequestID},
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
