package httpconn

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// probe serves requests on one connection in memory. Its methods may be called concurrently.
type probe struct {
	ctx context.Context

	mu      sync.Mutex
	calls   calls
	pending int           // reads of one byte that have not returned
	changed chan struct{} // closed by the next change of these; nil: nobody waits for it
}

// calls are net/http's calls to a connection, with a handler's marks among them.
type calls []call

type call struct {
	kind  kind
	size  int       // of reads
	at    time.Time // of setsDeadline
	bytes []byte    // of writes and sends
}

type kind int

const (
	reads        kind = iota + 1 // a Read begins
	setsDeadline                 // SetReadDeadline
	writes                       // Write
	sends                        // ReadFrom
	endsBody                     // a mark: the handler begins to read the body's last byte
	done                         // a mark, for which each handler has its use
)

// String describes the call for an error.
func (c call) String() string {
	switch c.kind {
	case setsDeadline:
		return c.at.UTC().Format(time.RFC3339)
	case sends:
		return fmt.Sprintf("a ReadFrom of %.99q", c.bytes)
	case writes:
		return fmt.Sprintf("a Write of %.99q", c.bytes)
	default:
		return "nothing"
	}
}

// from returns the calls from the first one of this kind on.
func (c calls) from(of kind) calls {
	return c[len(c.until(of)):]
}

// until returns the calls before the first one of this kind.
func (c calls) until(of kind) calls {
	if i := slices.IndexFunc(c, func(c call) bool { return c.kind == of }); i >= 0 {
		return c[:i]
	}
	return c
}

// first returns the first call of these kinds, or a zero one.
func (c calls) first(of ...kind) call {
	if i := slices.IndexFunc(c, func(c call) bool { return slices.Contains(of, c.kind) }); i >= 0 {
		return c[i]
	}
	return call{}
}

// asksForOneByte returns how many reads are of one byte.
func (c calls) asksForOneByte() (n int) {
	for _, one := range c {
		if one.kind == reads && one.size == 1 {
			n++
		}
	}
	return n
}

func (c calls) output() []byte {
	var all []byte
	for _, one := range c {
		all = append(all, one.bytes...)
	}
	return all
}

func (p *probe) add(c call) { p.change(func() { p.calls = append(p.calls, c) }) }

// change calls f under the lock, and wakes goroutines that await it.
func (p *probe) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

func (p *probe) mark(k kind) { p.add(call{kind: k}) }

// awaitReads waits until n reads of one byte have begun, or the request has ended.
func (p *probe) awaitReads(r *http.Request, n int) {
	p.await(r.Context(), func() bool { return p.calls.asksForOneByte() >= n })
}

// await waits until is holds, or until ctx ends.
func (p *probe) await(ctx context.Context, is func() bool) {
	for {
		p.mu.Lock()
		holds := is()
		if p.changed == nil {
			p.changed = make(chan struct{})
		}
		changed := p.changed
		p.mu.Unlock()
		if holds {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// watch serves requests, and returns the responses and net/http's calls.
func (p *probe) watch(h http.HandlerFunc, requests ...string) ([]*http.Response, calls, error) {
	responses, _, err := p.converse(h, func(t Transport) net.Conn { return watched{t, p} }, requests)
	p.mu.Lock()
	defer p.mu.Unlock()
	return responses, p.calls, err
}

// converse serves requests over the connection that around returns for a pipe's end, one after the
// other. It returns the responses, and the bytes that the client has received.
func (p *probe) converse(h http.HandlerFunc, around func(Transport) net.Conn, requests []string) (responses []*http.Response, received []byte, err error) {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	client, end := net.Pipe()
	closed := make(chan struct{})
	server := &http.Server{
		Handler:           h,
		ErrorLog:          log.New(io.Discard, "", 0),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: time.Minute,
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				close(closed)
			}
		},
	}
	attach(server)
	l := &oneConn{conn: around(pipeEnd{end}), ended: make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()

	responses, received, err = p.exchange(ctx, client, requests)
	cancel()
	err = errors.Join(err, client.Close(), server.Close())
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	select {
	case <-closed:
	case <-p.ctx.Done():
		err = errors.Join(err, p.ctx.Err())
	}
	return responses, received, err
}

// exchange sends each request when the response to the one before has been received, and its
// background read has ended.
func (p *probe) exchange(ctx context.Context, client net.Conn, requests []string) (responses []*http.Response, received []byte, err error) {
	if deadline, ok := ctx.Deadline(); ok {
		if err := client.SetDeadline(deadline); err != nil {
			return nil, nil, err
		}
	}
	var all bytes.Buffer
	r := bufio.NewReader(io.TeeReader(client, &all))
	for _, request := range requests {
		if _, err := io.WriteString(client, request); err != nil {
			return responses, all.Bytes(), fmt.Errorf("sending a request: %w", err)
		}
		method, _, _ := strings.Cut(request, " ")
		var response *http.Response
		for response == nil || response.StatusCode == http.StatusContinue {
			if response, err = http.ReadResponse(r, &http.Request{Method: method}); err != nil {
				return responses, all.Bytes(), fmt.Errorf("receiving a response: %w", err)
			}
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			return responses, all.Bytes(), fmt.Errorf("receiving a response: %w", err)
		}
		responses = append(responses, response)
		p.await(ctx, func() bool { return p.pending == 0 })
	}
	return responses, all.Bytes(), nil
}

// oneConn is a listener that accepts one connection.
type oneConn struct {
	conn  net.Conn
	ended chan struct{}
}

// Accept returns the connection, and then waits until Close.
func (l *oneConn) Accept() (net.Conn, error) {
	if conn := l.conn; conn != nil {
		l.conn = nil
		return conn, nil
	}
	<-l.ended
	return nil, net.ErrClosed
}

// Close ends Accept.
func (l *oneConn) Close() error {
	close(l.ended)
	return nil
}

// Addr returns an address that no client can reach.
func (l *oneConn) Addr() net.Addr { return &net.UnixAddr{Name: "probe", Net: "pipe"} }

// pipeEnd makes a Transport from an end that net.Pipe returns.
type pipeEnd struct{ net.Conn }

// ReadFrom copies src.
func (p pipeEnd) ReadFrom(src io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{p.Conn}, src)
}

// CloseWrite closes the pipe, which cannot be closed for one direction.
func (p pipeEnd) CloseWrite() error { return p.Close() }

// watched is a connection that records its calls.
type watched struct {
	Transport
	probe *probe
}

// Read records the call and reads.
func (c watched) Read(b []byte) (int, error) {
	p, oneByte := c.probe, 0
	if len(b) == 1 {
		oneByte = 1
	}
	p.change(func() {
		p.calls = append(p.calls, call{kind: reads, size: len(b)})
		p.pending += oneByte
	})
	defer p.change(func() { p.pending -= oneByte })
	return c.Transport.Read(b)
}

// SetReadDeadline records the call and sets the deadline.
func (c watched) SetReadDeadline(t time.Time) error {
	c.probe.add(call{kind: setsDeadline, at: t})
	return c.Transport.SetReadDeadline(t)
}

// SetDeadline is SetReadDeadline and SetWriteDeadline.
func (c watched) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// Write records the call and writes.
func (c watched) Write(b []byte) (int, error) {
	c.probe.add(call{kind: writes, bytes: bytes.Clone(b)})
	return c.Transport.Write(b)
}

// ReadFrom records the call and writes all of src.
func (c watched) ReadFrom(src io.Reader) (int64, error) {
	all, err := io.ReadAll(src)
	if err != nil {
		return 0, err
	}
	c.probe.add(call{kind: sends, bytes: all})
	return c.Transport.ReadFrom(bytes.NewReader(all))
}
