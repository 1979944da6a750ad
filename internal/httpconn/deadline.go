package httpconn

import (
	"errors"
	"io"
	"math"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// deadline is a connection's read or write deadline.
//
// net/http and its handlers set deadlines about nine times for each request, and nearly none of
// them passes. Setting one takes one of the runtime's locks and moves a timer. Therefore a deadline
// is only recorded while no operation waits for it, and the timer is left as it is if it fires too
// early: the operation then begins again. An operation fails when its deadline has passed, not
// before and not later.
type deadline struct {
	mu         sync.Mutex
	operations int           // in progress
	exact      bool          // one of them cannot begin again
	want       time.Duration // since epoch; below 0: it has passed
	timer      time.Duration // the runtime's deadline: since epoch, as want
}

// epoch is from when a deadline's times are counted.
var epoch = time.Now()

// never is no deadline.
const never = math.MaxInt64

// passed is a deadline in the past.
var passed = time.Unix(1, 0)

// begin begins an operation, unless the deadline has passed long ago. An exact one cannot begin
// again if its timer fires too early. arm sets the runtime's deadline.
func (d *deadline) begin(exact bool, arm func(time.Time) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.want < 0 {
		return os.ErrDeadlineExceeded
	}
	if d.timer < 0 || d.want < d.timer || exact && d.want != d.timer {
		if err := d.arm(arm); err != nil {
			return err
		}
	}
	d.operations++
	d.exact = d.exact || exact
	return nil
}

// end ends an operation with its error. It reports whether the runtime's deadline has passed too
// early, so that the operation must begin again.
func (d *deadline) end(err error) (again bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.operations--
	d.exact = d.exact && d.operations > 0
	if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	d.timer = -1
	return d.want > time.Since(epoch)
}

// set changes the deadline, even for operations in progress.
func (d *deadline) set(t time.Time, arm func(time.Time) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.want = never
	if !t.IsZero() {
		d.want = t.Sub(epoch)
	}
	if d.operations == 0 || !d.exact && d.timer >= 0 && d.timer <= d.want {
		return nil
	}
	return d.arm(arm)
}

// hasPassed reports whether the deadline is in the past, before epoch.
func (d *deadline) hasPassed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.want < 0
}

// arm sets the runtime's deadline to the wanted one.
func (d *deadline) arm(arm func(time.Time) error) error {
	d.timer = d.want
	switch {
	case d.want == never:
		return arm(time.Time{})
	case d.want < 0:
		return arm(passed)
	default:
		return arm(epoch.Add(d.want))
	}
}

// Transport is a TCP connection, or a connection over one.
type Transport interface {
	net.Conn
	io.ReaderFrom
	CloseWrite() error
}

// timed is a connection with deadlines that cost little to change. Its methods make the same
// promises as net.TCPConn's.
type timed struct {
	Transport
	reading, writing deadline
}

func newTimed(t Transport) timed {
	return timed{t, deadline{want: never, timer: never}, deadline{want: never, timer: never}}
}

// SetReadDeadline sets the deadline of Read.
func (c *timed) SetReadDeadline(t time.Time) error {
	return c.reading.set(t, c.Transport.SetReadDeadline)
}

// SetWriteDeadline sets the other methods' deadline.
func (c *timed) SetWriteDeadline(t time.Time) error {
	return c.writing.set(t, c.Transport.SetWriteDeadline)
}

// Read reads from the connection.
func (c *timed) Read(p []byte) (n int, err error) {
	for again := true; again; again = c.reading.end(err) {
		if err := c.reading.begin(false, c.Transport.SetReadDeadline); err != nil {
			return 0, err
		}
		n, err = c.Transport.Read(p)
	}
	return n, err
}

// Write writes p.
func (c *timed) Write(p []byte) (n int, err error) {
	for again := true; again; again = c.writing.end(err) {
		if err := c.writing.begin(false, c.Transport.SetWriteDeadline); err != nil {
			return n, err
		}
		var written int
		written, err = c.Transport.Write(p[n:])
		n += written
	}
	return n, err
}

// writeBuffers writes several buffers by one system call.
func (c *timed) writeBuffers(buffers net.Buffers) (n int64, err error) {
	if err := c.writing.begin(true, c.Transport.SetWriteDeadline); err != nil {
		return 0, err
	}
	n, err = buffers.WriteTo(c.Transport)
	c.writing.end(err)
	return n, err
}

// ReadFrom writes all of src.
func (c *timed) ReadFrom(src io.Reader) (n int64, err error) {
	// It could not begin again: bytes that it had read from src would be lost.
	if err := c.writing.begin(true, c.Transport.SetWriteDeadline); err != nil {
		return 0, err
	}
	n, err = c.Transport.ReadFrom(src)
	c.writing.end(err)
	return n, err
}

// sendFile writes head, and then n bytes of a file from an offset on, without copying them. It
// returns how many bytes were written together, which are fewer if the file ends. It returns
// errors.ErrUnsupported if it cannot send the file.
func (c *timed) sendFile(head []byte, file syscall.RawConn, offset, n int64) (sent int64, err error) {
	transport, ok := c.Transport.(syscall.Conn)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	to, err := transport.SyscallConn()
	if err != nil {
		return 0, err
	}
	for again := true; again; again = c.writing.end(err) {
		if err := c.writing.begin(false, c.Transport.SetWriteDeadline); err != nil {
			return sent, err
		}
		var some int64
		some, err = send(to, head, file, offset, n)
		sent += some
		ofHead := min(some, int64(len(head)))
		head, offset, n = head[ofHead:], offset+some-ofHead, n-(some-ofHead)
	}
	return sent, err
}
