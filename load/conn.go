package load

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"sluice/client"
	"sluice/wire"
)

// Request is an HTTP request.
type Request struct {
	Method string
	Path   string // escaped, below the target's base path, with its query
	Fields string // additional header fields, each with CR LF at its end
	Body   []byte
	// Content is sent as the body if Body is nil. Its bytes from Offset to Offset+Length are sent.
	Content        Content
	Offset, Length int64
}

// Response is an HTTP response.
type Response struct {
	Status int
	Length int64  // bytes in the body
	Body   []byte // of at most maxKept bytes; nil if it was not kept
}

// Conn sends requests over one HTTP/1.1 connection, one after another. The first request opens it,
// and so does the next one after it was closed. It takes a fraction of an http.Client's processor
// time. It is for one goroutine.
type Conn struct {
	target *Target
	conn   net.Conn // nil if it is closed
	r      *bufio.Reader
	w      []byte    // a request's head, and its body if that is short
	used   time.Time // when the last request ended
	stop   func() bool
}

// NewConn returns a connection to a target.
func NewConn(t *Target) *Conn {
	return &Conn{target: t, r: bufio.NewReaderSize(nil, bufferSize)}
}

const (
	bufferSize = 64 << 10
	pieceSize  = 1 << 20          // is sent or received under one deadline
	maxKept    = 64 << 10         // bytes in a body that is kept
	idleTime   = 10 * time.Second // after which a server may close a connection
)

// Do sends a request and receives the response. A response with another status than want is a
// *client.Error. keep keeps the body, which must not be longer than maxKept; otherwise it is
// discarded. When the context ends with which a request opened the connection, the connection is
// closed and its request fails.
func (c *Conn) Do(ctx context.Context, q *Request, want int, keep bool) (Response, error) {
	if err := c.open(ctx); err != nil {
		return Response{}, err
	}
	p, again, err := c.exchange(q, want, keep)
	if !again {
		c.Close()
	}
	c.used = time.Now()
	return p, err
}

// open opens the connection unless it is open.
func (c *Conn) open(ctx context.Context) (err error) {
	if c.conn != nil && time.Since(c.used) > idleTime {
		c.Close()
	}
	if c.conn == nil {
		if c.conn, err = c.target.dial(ctx); err != nil {
			c.conn = nil
			return err
		}
		opened := c.conn
		c.stop = context.AfterFunc(ctx, func() { _ = opened.Close() }) // its request fails
		c.r.Reset(opened)
	}
	return nil
}

// Close closes the connection. The next request opens it again.
func (c *Conn) Close() {
	if c.conn != nil {
		c.stop()
		_ = c.conn.Close() // it is not used any more
		c.conn = nil
	}
}

// exchange sends a request and receives the response. It reports whether the connection can be used
// again.
func (c *Conn) exchange(q *Request, want int, keep bool) (p Response, again bool, err error) {
	sent := c.send(q)
	if sent != nil && !errors.Is(sent, errConnection) {
		return p, false, sent
	}
	if err := c.extend(); err != nil {
		return p, false, err
	}
	h, err := readHead(c.r, q.Method)
	if err != nil {
		if sent != nil { // the server has not explained why it closed the connection
			err = sent
		}
		return p, false, err
	}
	p.Status = h.status
	refused := h.status != want
	p.Body, p.Length, err = c.receive(h, keep || refused)
	if err != nil {
		return p, false, err
	}
	if refused {
		err = newError(h, p.Body)
	}
	return p, !h.close && sent == nil, err
}

// errConnection is an error of writing after which a response may have arrived.
var errConnection = errors.New("the server closed the connection")

// send sends a request. Its body is sent with the head if it is short.
func (c *Conn) send(q *Request) error {
	length := q.Length
	if q.Body != nil {
		length = int64(len(q.Body))
	}
	c.w = append(c.w[:0], q.Method...)
	c.w = append(c.w, ' ')
	c.w = append(c.w, c.target.base...)
	c.w = append(c.w, q.Path...)
	c.w = append(c.w, c.target.fields...)
	c.w = append(c.w, q.Fields...)
	if q.Method != http.MethodGet && q.Method != http.MethodHead {
		c.w = append(c.w, "Content-Length: "...)
		c.w = strconv.AppendInt(c.w, length, 10)
		c.w = append(c.w, "\r\n"...)
	}
	c.w = append(c.w, "\r\n"...)
	if q.Body != nil {
		c.w = append(c.w, q.Body...)
		return c.write(c.w)
	}
	offset, end := q.Offset, q.Offset+q.Length
	for offset < end && len(c.w) < bufferSize {
		b := q.Content.Piece(offset, min(end-offset, bufferSize))
		c.w = append(c.w, b...)
		offset += int64(len(b))
	}
	if err := c.write(c.w); err != nil {
		return err
	}
	for offset < end {
		b := q.Content.Piece(offset, min(end-offset, pieceSize))
		if err := c.write(b); err != nil {
			return err
		}
		offset += int64(len(b))
	}
	return nil
}

func (c *Conn) write(b []byte) error {
	if err := c.extend(); err != nil {
		return err
	}
	if _, err := c.conn.Write(b); err != nil {
		return fmt.Errorf("%w: %w", errConnection, err)
	}
	return nil
}

// extend sets the deadline of the next send or receive.
func (c *Conn) extend() error { return c.conn.SetDeadline(time.Now().Add(c.target.timeout)) }

// receive receives a body, and returns its length, and the body if it is kept.
func (c *Conn) receive(h head, keep bool) (body []byte, length int64, err error) {
	if h.length == 0 {
		return nil, 0, nil
	}
	r := bodyReader(c.r, h)
	if keep {
		if body, err = io.ReadAll(io.LimitReader(r, maxKept)); err != nil {
			return nil, 0, unexpectedEnd(err)
		}
		length = int64(len(body))
	}
	if h.length > 0 {
		err = c.discard(h.length - length)
		return body, h.length, err
	}
	rest, err := io.Copy(io.Discard, r)
	return body, length + rest, err
}

func (c *Conn) discard(n int64) error {
	for n > 0 {
		piece := min(n, pieceSize)
		if int64(c.r.Buffered()) < piece {
			if err := c.extend(); err != nil {
				return err
			}
		}
		done, err := c.r.Discard(int(piece))
		if err != nil {
			return unexpectedEnd(err)
		}
		n -= int64(done)
	}
	return nil
}

func newError(h head, body []byte) error {
	e := &client.Error{Status: h.status, Detail: fmt.Sprintf("the server responded %d %s", h.status, http.StatusText(h.status))}
	var p wire.Problem
	if h.problem && json.Unmarshal(body, &p) == nil {
		e.Code, e.Detail, e.RequestID, e.Reason = wire.Code(p.Code), p.Detail, p.RequestID, p.Reason
	}
	return e
}
