package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"sluice/access"
	"sluice/blob"
)

// errSlowBody: the body came below the minimum rate. The connection is of no
// more use after the reply.
var errSlowBody = errors.New("the body comes too slowly")

// errBrokenBody is a body whose framing is broken. The connection is of no more
// use after the reply.
var errBrokenBody = errors.New("the body is broken: its chunks cannot be read")

// pace is the slowest that a transfer may go: so many bytes in any window of
// time.
type pace struct {
	bytes  int64
	window time.Duration
}

// defaultPace is 1 KiB/s over any 30 s.
var defaultPace = pace{bytes: 30 << 10, window: 30 * time.Second}

// bytesPerSecond gives the pace as a rate.
func (p pace) bytesPerSecond() int64 {
	return int64(float64(p.bytes) / p.window.Seconds())
}

// timeFor gives how long n bytes may take: at least one window.
func (p pace) timeFor(n int64) time.Duration {
	t := float64(p.window) * float64(n) / float64(p.bytes)
	return max(p.window, time.Duration(min(t, math.MaxInt64/2)))
}

// cut ends the bodies that still come when the service is about to end.
type cut struct {
	ctx    context.Context
	now    context.CancelFunc
	bodies atomic.Int64 // that are being read
}

func newCut() *cut {
	ctx, now := context.WithCancel(context.Background())
	return &cut{ctx: ctx, now: now}
}

// progressReader is a request's body that must keep a pace. Only the time spent
// inside Read counts, so a handler may take as long as it likes between two
// reads. The guard works by the read deadline of the connection; a
// ResponseWriter without deadlines is not guarded. It is for one goroutine.
type progressReader struct {
	body      io.ReadCloser
	control   http.ResponseController
	pace      pace
	ctx       context.Context   // of the request
	allowance *access.Allowance // of whoever sends it; nil: no limits
	strict    bool              // a deadline ends the body also when it passes between two reads (HTTP/2)
	cut       *cut              // ends bodies that still come; nil: nothing does
	keep      func() bool       // ends the watch over cut; nil: it has not begun
	kept      bool              // the watch over cut has ended
	left      time.Duration     // of the present window
	moved     int64             // bytes in the present window
	total     int64             // bytes so far
	err       error             // of the Read that ended it
}

// newProgressReader guards a request's body. w is the ResponseWriter of the
// same request. The caller calls done when it needs the body no more, before it
// writes an error reply.
func newProgressReader(w http.ResponseWriter, body io.ReadCloser, p pace) *progressReader {
	r := &progressReader{body: body, control: *http.NewResponseController(w), pace: p, left: p.window}
	if body == http.NoBody {
		// The server watches the connection by reading from it already; a
		// deadline now would look to it like the end of the client.
		r.err = io.EOF
	}
	return r
}

// Read reads from the body. It returns errSlowBody when the body falls behind its
// pace, blob.ErrIncompleteBody when the client is gone before the end,
// errBrokenBody when its framing cannot be read, and errDraining when the service
// cut it. Every error is final.
func (r *progressReader) Read(p []byte) (int, error) {
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
		r.err = errDraining
		return 0, r.err
	}
	n, err := r.body.Read(p)
	r.left -= time.Since(start)
	r.moved += int64(n)
	r.total += int64(n)
	if r.moved >= r.pace.bytes {
		r.moved, r.left = 0, r.pace.window
	}
	if err != nil {
		r.err = r.explain(err)
		if errors.Is(r.err, io.EOF) {
			r.done()
		}
	}
	return n, r.wait(n)
}

// isCut reports whether the service has cut the body, and sees to it that a Read
// which waits then ends. It is called behind setDeadline, whose effect must not
// come after that of the cut.
func (r *progressReader) isCut() bool {
	if r.cut == nil {
		return false
	}
	if r.keep == nil {
		r.cut.bodies.Add(1)
		r.keep = context.AfterFunc(r.cut.ctx, func() { _ = r.setDeadline(time.Now()) }) // no deadline can be set on a closed connection
	}
	return r.cut.ctx.Err() != nil
}

// wait holds the body back that comes faster than its sender may send.
func (r *progressReader) wait(n int) error {
	if r.strict && r.err == nil {
		r.err = r.setDeadline(time.Time{})
	}
	if r.allowance == nil || n == 0 {
		return r.err
	}
	if err := r.allowance.PaceIn(r.ctx, n); err != nil && r.err == nil {
		r.err = fmt.Errorf("%w: %w", blob.ErrIncompleteBody, err)
	}
	return r.err
}

// explain names the error of a body here, where it is known to be one: further on
// it would look like that of a store, whose connections end in the same ways.
func (r *progressReader) explain(err error) error {
	var lost *net.OpError
	switch {
	case errors.Is(err, io.EOF):
		return err
	case r.cut != nil && r.cut.ctx.Err() != nil:
		return errDraining
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: at least %d bytes in %v are required", errSlowBody, r.pace.bytes, r.pace.window)
	case errors.As(err, &lost), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: %w", blob.ErrIncompleteBody, err)
	default:
		return fmt.Errorf("%w: %w", errBrokenBody, err)
	}
}

// done ends the guard. It may be called more than once. What a handler has not
// read, the server reads off by itself, up to a limit, before it sends the
// reply or takes the next request; done gives it one window for that.
func (r *progressReader) done() {
	if r.keep != nil && !r.kept {
		r.keep()
		r.kept = true
		r.cut.bodies.Add(-1)
	}
	var deadline time.Time
	switch {
	case errors.Is(r.err, io.EOF):
		// None: the server now watches the connection by reading from it, and
		// takes a deadline that passes for the end of the client.
	case errors.Is(r.err, errSlowBody):
		deadline = time.Now() // it had its time
	default:
		deadline = time.Now().Add(r.pace.window)
	}
	// Where a deadline cannot be set the connection is closed, and there is
	// nothing left to guard.
	_ = r.setDeadline(deadline)
}

// ended reports whether the whole body was read.
func (r *progressReader) ended() bool { return errors.Is(r.err, io.EOF) }

// abandon makes done give what is left of the body no more time.
func (r *progressReader) abandon() {
	if !r.ended() {
		r.err = errSlowBody
	}
}

// What a refusal reads of a body, at most, so that the connection can be used
// again: a body of which more is left, or that does not come, is given up.
const (
	drainLimit = 256 << 10
	drainTime  = time.Second
)

// drain reads off what is left of a body of that length (below 0: not known), and
// reports whether that was little and came soon. The server would do it before it
// sends a reply, and wait longer.
func (r *progressReader) drain(length int64) bool {
	if length-r.total > drainLimit {
		return false
	}
	if r.err == nil && r.setDeadline(time.Now().Add(drainTime)) == nil {
		_, r.err = io.CopyN(io.Discard, r.body, drainLimit)
		if r.err == nil {
			r.err = errSlowBody // what follows is not waited for
		}
	}
	return r.ended()
}

// Close ends the guard and closes the body.
func (r *progressReader) Close() error {
	r.done()
	return r.body.Close()
}

func (r *progressReader) setDeadline(t time.Time) error {
	err := r.control.SetReadDeadline(t)
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}
