package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"sluice/access"
	"sluice/blob"
	"sluice/internal/httpconn"
)

// After either of these errors the connection must be closed after the response.
var (
	// ErrSlowBody reports a body that is below the minimum rate.
	ErrSlowBody = errors.New("the body is too slow")
	// ErrBrokenBody reports a body with invalid framing.
	ErrBrokenBody = errors.New("the framing of the body is invalid: its chunks cannot be read")
)

// Options are options for a Reader and a Writer.
type Options struct {
	Rate MinRate
	// Context is the request's context.
	Context context.Context
	// HTTP2 reports that the request is a stream of HTTP/2, which a deadline ends even if it passes
	// between two reads or writes.
	HTTP2 bool
	// Cut ends the request's body; nil: nothing does. A Writer ignores it.
	Cut *Cut
	// Conn is the request's connection. nil over TLS or HTTP/2, or without httpconn: then writes
	// are not joined, and no fields are inserted.
	Conn *httpconn.Conn
}

// Reader is a request's body, which must keep a minimum rate. Only the time in Read counts, so a
// handler may pause between reads. The rate is enforced by the connection's read deadline; if the
// ResponseWriter has no deadlines, it is not enforced. A Reader is not safe for concurrent use.
type Reader struct {
	body       io.ReadCloser
	control    http.ResponseController
	options    Options
	allowance  *access.Allowance // nil: no limits
	stopCut    func() bool       // stops the cut from ending the body; nil: it was not read yet
	cutStopped bool
	left       time.Duration // the current window's
	moved      int64         // bytes in the current window
	total      int64         // bytes so far
	err        error         // of the Read that ended the body
	empty      bool          // there is no body
}

// Init makes r, a zero Reader, read a request's body. w is the same request's ResponseWriter. The
// caller must call Done or Close when it does not need the body anymore, before it writes an error
// response.
func (r *Reader) Init(w http.ResponseWriter, body io.ReadCloser, options Options) {
	r.body, r.control, r.options, r.left = body, *http.NewResponseController(w), options, options.Rate.Window
	if body == http.NoBody {
		// The server already watches the connection by reading from it, and takes a deadline that
		// passes for the client's end.
		r.err, r.empty = io.EOF, true
	}
}

// Limit applies a caller's limits to the remaining body.
func (r *Reader) Limit(a *access.Allowance) { r.allowance = a }

// Total returns how many bytes have been read.
func (r *Reader) Total() int64 { return r.total }

// Read reads from the body. It returns ErrSlowBody if the body is below its minimum rate,
// blob.ErrIncompleteBody if the client is gone before the end, ErrBrokenBody if the framing is
// invalid, and the Cut's error if that ended the body. Every error is final.
func (r *Reader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	if r.allowance != nil {
		p = p[:min(int64(len(p)), r.allowance.ChunkIn())]
	}
	start := time.Now()
	if err := r.setDeadline(start.Add(r.left)); err != nil {
		r.err = fmt.Errorf("%w: %w", blob.ErrIncompleteBody, err)
		return 0, r.err
	}
	if r.isCut() {
		r.err = r.options.Cut.err
		return 0, r.err
	}
	n, err := r.body.Read(p)
	r.left -= time.Since(start)
	r.moved += int64(n)
	r.total += int64(n)
	if r.moved >= r.options.Rate.Bytes {
		r.moved, r.left = 0, r.options.Rate.Window
	}
	if err != nil {
		r.err = r.explain(err)
		if errors.Is(r.err, io.EOF) {
			r.Done()
		}
	}
	return n, r.wait(n)
}

// isCut reports whether the body was cut, and ensures that a cut ends a Read that waits. It must be
// called after setDeadline, which would undo a cut's effect.
func (r *Reader) isCut() bool {
	cut := r.options.Cut
	if cut == nil {
		return false
	}
	if r.stopCut == nil {
		cut.bodies.Add(1)
		// It fails only on a closed connection.
		r.stopCut = context.AfterFunc(cut.ctx, func() { _ = r.setDeadline(time.Now()) })
	}
	return cut.ctx.Err() != nil
}

// wait delays a body that is faster than its caller may send.
func (r *Reader) wait(n int) error {
	if r.options.HTTP2 && r.err == nil {
		r.err = r.setDeadline(time.Time{})
	}
	if r.allowance == nil || n == 0 {
		return r.err
	}
	if err := r.allowance.PaceIn(r.options.Context, n); err != nil && r.err == nil {
		r.err = fmt.Errorf("%w: %w", blob.ErrIncompleteBody, err)
	}
	return r.err
}

// explain classifies a body's error here, where it cannot be confused with a store's error: a
// store's connections fail in the same ways.
func (r *Reader) explain(err error) error {
	var lost *net.OpError
	switch {
	case errors.Is(err, io.EOF):
		return err
	case r.options.Cut != nil && r.options.Cut.ctx.Err() != nil:
		return r.options.Cut.err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: at least %d bytes in %v are required", ErrSlowBody, r.options.Rate.Bytes, r.options.Rate.Window)
	case errors.As(err, &lost), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: %w", blob.ErrIncompleteBody, err)
	default:
		return fmt.Errorf("%w: %w", ErrBrokenBody, err)
	}
}

// Done stops enforcing the rate. It may be called more than once. The server itself reads a body to
// its end, up to a limit, before it sends the response or reads the next request; Done sets a
// deadline of one window for that.
func (r *Reader) Done() {
	if r.empty {
		return // no deadline was set
	}
	if r.stopCut != nil && !r.cutStopped {
		r.stopCut()
		r.cutStopped = true
		r.options.Cut.bodies.Add(-1)
	}
	var deadline time.Time
	switch {
	case errors.Is(r.err, io.EOF):
		// No deadline: see Init.
	case errors.Is(r.err, ErrSlowBody):
		deadline = time.Now() // it had enough time
	default:
		deadline = time.Now().Add(r.options.Rate.Window)
	}
	// If the deadline cannot be set, the connection is closed.
	_ = r.setDeadline(deadline)
}

// Ended reports whether the whole body was read.
func (r *Reader) Ended() bool { return errors.Is(r.err, io.EOF) }

// Abandon makes Done leave no time for the remaining body.
func (r *Reader) Abandon() {
	if !r.Ended() {
		r.err = ErrSlowBody
	}
}

// Bounds of Drain.
const (
	drainLimit   = 256 << 10
	drainTimeout = time.Second
)

// Drain reads a body of this length (negative: unknown) to its end, so that the connection can be
// used again. It reports whether it reached the end within 256 KiB and 1 second. Without it the
// server would do the same before it sends the response, and wait longer.
func (r *Reader) Drain(length int64) bool {
	if length-r.total > drainLimit {
		return false
	}
	if r.err == nil && r.setDeadline(time.Now().Add(drainTimeout)) == nil {
		_, r.err = io.CopyN(io.Discard, r.body, drainLimit)
		if r.err == nil {
			r.err = ErrSlowBody // the rest is not waited for
		}
	}
	return r.Ended()
}

// Close calls Done and closes the body.
func (r *Reader) Close() error {
	r.Done()
	return r.body.Close()
}

func (r *Reader) setDeadline(t time.Time) error {
	err := r.control.SetReadDeadline(t)
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}
