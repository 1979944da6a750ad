// Package httpconn makes an HTTP/1 server's connections without TLS cost less time: header fields
// are inserted behind net/http's status line, small writes are joined, and reads and deadlines are
// held back that net/http nearly always takes back. It is correct only if net/http writes and reads
// as assumptions_test.go lists and checks.
package httpconn

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// Conn is an HTTP server's connection. It has the promises of its Transport.
type Conn struct {
	joined
	background background
}

// NetConn returns the connection over which conn runs.
func (conn *Conn) NetConn() net.Conn { return conn.Transport }

// Read reads from the connection. A read of one byte may begin later; see background.
func (conn *Conn) Read(p []byte) (int, error) {
	if len(p) == 1 {
		if err := conn.background.await(&conn.reading); err != nil {
			return 0, err
		}
	}
	return conn.timed.Read(p)
}

// SetReadDeadline sets the deadline of Read.
func (conn *Conn) SetReadDeadline(t time.Time) error {
	err := conn.timed.SetReadDeadline(t)
	conn.background.deadlineSet(&conn.reading)
	return err
}

// SetDeadline sets the deadlines of reads and writes.
func (conn *Conn) SetDeadline(t time.Time) error {
	return errors.Join(conn.SetReadDeadline(t), conn.SetWriteDeadline(t))
}

func newConn(t Transport) *Conn { return &Conn{joined: joined{timed: newTimed(t)}} }

// attach makes server provide its Conns to FromContext, after its present ConnContext.
func attach(server *http.Server) {
	before := server.ConnContext
	server.ConnContext = func(ctx context.Context, nc net.Conn) context.Context {
		if before != nil {
			ctx = before(ctx, nc)
		}
		if conn := connOf(nc); conn != nil {
			return context.WithValue(ctx, contextKey{}, conn)
		}
		return ctx
	}
}

// connOf returns the Conn that nc is, or over which it runs, or nil.
func connOf(nc net.Conn) *Conn {
	for {
		switch conn := nc.(type) {
		case *Conn:
			return conn
		case interface{ NetConn() net.Conn }:
			nc = conn.NetConn()
		default:
			return nil
		}
	}
}

// contextKey is the key of the *Conn in a request's context.
type contextKey struct{}

// FromContext returns a request's Conn, or nil on the plain path. Its Hold and InsertFields may be
// used only over HTTP/1 without TLS.
func FromContext(ctx context.Context) *Conn {
	conn, _ := ctx.Value(contextKey{}).(*Conn)
	return conn
}
