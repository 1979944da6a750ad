package transfer

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"sluice/access"
	"sluice/blob"
	"sluice/internal/httpconn"
)

// ErrSlowReader reports a client that reads the response below the minimum rate. The response is
// incomplete.
var ErrSlowReader = errors.New("the client reads the response too slowly")

const (
	// writeChunk is how many bytes one deadline covers. One deadline for a whole response would cut
	// transfers that keep the rate.
	writeChunk = 1 << 20
	// copyBuffer is the buffer's size for sources that must be copied.
	copyBuffer = 128 << 10
)

// Writer is a ResponseWriter with a minimum rate for the client, who must read each MiB within the
// time that it takes at that rate, at least one window. Only the time in Write and ReadFrom counts.
// The rate is enforced by the connection's write deadline; if the ResponseWriter has no deadlines,
// it is not enforced. A Writer is not safe for concurrent use, except for Cut.
type Writer struct {
	http.ResponseWriter
	control   http.ResponseController
	options   Options
	allowance *access.Allowance // nil: no limits
	deadline  time.Time         // the whole response's; zero: none
	length    int64             // the body's; unknownLength before WriteHeader or if it is not declared
	written   int64             // the body's, so far
	before    int64             // bytes that the connection had sent before the response
	holds     bool              // the connection holds the response's end
	wrapped   bool              // see Wrap
	isCut     atomic.Bool
}

const unknownLength = -1

// Init makes w, a zero Writer, one to the response. The caller must call Done when it has written
// the response.
func (w *Writer) Init(response http.ResponseWriter, options Options) {
	w.ResponseWriter, w.control, w.options, w.length = response, *http.NewResponseController(response), options, unknownLength
	if options.Conn != nil {
		w.before = options.Conn.Sent()
	}
}

// Limit applies a caller's limits to the remaining response.
func (w *Writer) Limit(a *access.Allowance) { w.allowance = a }

// SetDeadline sets when the response must have ended; the zero time means never.
func (w *Writer) SetDeadline(t time.Time) { w.deadline = t }

// Wrap makes the ResponseWriter that around returns send the response in its place. It must be
// called before WriteHeader. How many bytes have left the process is not known then, so nothing is
// held, and Unsent returns 0.
func (w *Writer) Wrap(around func(http.ResponseWriter) http.ResponseWriter) {
	w.ResponseWriter = around(w.ResponseWriter)
	w.control = *http.NewResponseController(w.ResponseWriter)
	w.wrapped = true
}

// Written returns how many bytes have been written to the body.
func (w *Writer) Written() int64 { return w.written }

// WriteHeader sends the status and the headers. A Content-Length is the body's length.
func (w *Writer) WriteHeader(status int) {
	if declared, err := strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64); err == nil {
		w.length = declared
	}
	w.ResponseWriter.WriteHeader(status)
}

// CanInsert reports whether InsertFields can be called.
func (w *Writer) CanInsert() bool { return w.options.Conn != nil }

// InsertFields sends more header fields than Header has, which takes less time. They must be set
// before WriteHeader; see httpconn.Conn.
func (w *Writer) InsertFields(fields []byte) { w.options.Conn.InsertFields(fields) }

// Unwrap returns the ResponseWriter for http.ResponseController.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write writes p. It returns ErrSlowReader if the client is below its minimum rate. With an error
// over HTTP/2 the count is an upper bound: the chunk that was being written counts as written. No
// byte after the count was passed to the connection.
func (w *Writer) Write(p []byte) (int, error) {
	total := 0
	for {
		chunk := p[total:min(len(p), total+int(w.chunk()))]
		if err := w.next(int64(len(chunk))); err != nil {
			return total, err
		}
		w.holdEnd(len(chunk))
		n, err := w.ResponseWriter.Write(chunk)
		if err != nil && w.options.HTTP2 {
			// HTTP/2 does not report how much of the chunk was sent before the stream ended, which
			// can be all but the last byte.
			n = len(chunk)
		}
		total += n
		w.written += int64(n)
		if err == nil {
			err = w.clearDeadline()
		}
		if err != nil {
			return total, w.explain(err)
		}
		if total >= len(p) {
			return total, nil
		}
	}
}

// ReadFrom writes all of src. It passes a file or an httpconn.Positioned, even in an
// io.LimitedReader, to the ResponseWriter's ReadFrom, which can make the kernel send it (sendfile).
// Any other source is read first and then written, so the time that it takes does not count against
// the client.
func (w *Writer) ReadFrom(src io.Reader) (int64, error) {
	limited, isLimited := src.(*io.LimitedReader)
	file := src
	if isLimited {
		file = limited.R
	}
	direct, canSend := w.ResponseWriter.(io.ReaderFrom)
	if !isFile(file) || !canSend {
		return io.CopyBuffer(writerOnly{w}, readerOnly{src}, make([]byte, copyBuffer))
	}
	var total int64
	for {
		// Package net unwraps one LimitedReader only.
		chunk := &io.LimitedReader{R: file, N: w.chunk()}
		if isLimited {
			chunk.N = min(chunk.N, limited.N)
		}
		want := chunk.N
		if want <= 0 {
			return total, nil
		}
		if err := w.next(want); err != nil {
			return total, err
		}
		if err := w.holdHead(); err != nil {
			return total, w.explain(err)
		}
		n, err := direct.ReadFrom(chunk)
		total += n
		w.written += n
		if isLimited {
			limited.N -= n
		}
		if err != nil {
			return total, w.explain(err)
		}
		if n < want {
			return total, nil
		}
	}
}

// isFile reports whether a source is one that the kernel may be able to send.
func isFile(src io.Reader) bool {
	if _, ok := src.(httpconn.Positioned); ok {
		return true
	}
	_, ok := src.(syscall.Conn)
	return ok
}

// holdHead makes the connection hold the response's head until the body is written, which a file
// follows. Otherwise the server would read the file's first bytes and write them with the
// head, to find out their type.
func (w *Writer) holdHead() error {
	if w.options.Conn == nil || w.wrapped || w.written > 0 || w.length == unknownLength {
		return nil
	}
	w.holds = true
	w.options.Conn.Hold()
	return w.control.Flush()
}

// holdEnd makes the connection hold the body's last n bytes until Send. The server writes to it
// from a small buffer, which has the headers and earlier bytes, and would divide the response's end
// into two writes.
func (w *Writer) holdEnd(n int) {
	if w.options.Conn != nil && !w.wrapped && w.written+int64(n) == w.length {
		w.holds = true
		w.options.Conn.Hold()
	}
}

// Send sends the end that is held back from a complete response. An error means that a part is lost
// (see Unsent), and the connection must be closed.
func (w *Writer) Send() error {
	if !w.holds {
		return nil
	}
	w.holds = false
	err := w.control.Flush() // to the connection
	if released := w.options.Conn.Release(); err == nil {
		err = released
	}
	if err != nil {
		return w.explain(err)
	}
	return nil
}

// Unsent returns how many bytes of Written, at least, have not left the process: 0 over HTTP/2 or
// TLS, where it is not known.
func (w *Writer) Unsent() int64 {
	if w.options.Conn == nil || w.wrapped {
		return 0
	}
	// The bytes sent include the headers.
	return max(0, w.written-(w.options.Conn.Sent()-w.before))
}

// Flush sends buffered bytes. It returns ErrSlowReader if the client does not accept them within
// the rate's window.
func (w *Writer) Flush() error {
	err := w.setDeadline(0)
	if err == nil {
		err = w.control.Flush()
	}
	if err == nil {
		err = w.clearDeadline()
	}
	if err != nil {
		return w.explain(err)
	}
	return nil
}

// Done ends the response. It stops enforcing the rate, sends the end that is held, and leaves one
// window for the bytes that the server has buffered, after which the server clears the deadline
// itself. An error means that the connection must be closed, as after a failed write.
func (w *Writer) Done() error {
	if err := w.setDeadline(0); err != nil {
		return err
	}
	return w.Send()
}

// chunk returns how many bytes to write under one deadline.
func (w *Writer) chunk() int64 {
	if w.allowance == nil {
		return writeChunk
	}
	return min(writeChunk, w.allowance.ChunkOut())
}

// next waits until the caller may have n more bytes, which does not count against the client, and
// then sets the deadline for them.
func (w *Writer) next(n int64) error {
	if w.allowance != nil && n > 0 {
		if err := w.allowance.PaceOut(w.options.Context, int(n)); err != nil {
			return err
		}
	}
	return w.setDeadline(n)
}

// Cut makes the current write and all later ones fail with blob.ErrCut. It may be called while
// another goroutine writes, until the request's handler returns.
func (w *Writer) Cut() {
	w.isCut.Store(true)
	// If the deadline cannot be set, the next write fails.
	_ = w.control.SetWriteDeadline(longAgo)
}

// longAgo is an expired deadline.
var longAgo = time.Unix(1, 0)

// clearDeadline removes the deadline until the next write if it would end the stream before that.
func (w *Writer) clearDeadline() error {
	if !w.options.HTTP2 {
		return nil
	}
	if err := w.control.SetWriteDeadline(w.deadline); err != nil {
		return fmt.Errorf("clearing the write deadline: %w", err)
	}
	return w.checkCut()
}

// setDeadline sets the deadline for the next n bytes.
func (w *Writer) setDeadline(n int64) error {
	deadline := time.Now().Add(w.options.Rate.timeFor(n))
	if !w.deadline.IsZero() && w.deadline.Before(deadline) {
		deadline = w.deadline
	}
	err := w.control.SetWriteDeadline(deadline)
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("setting the write deadline: %w", err)
	}
	return w.checkCut()
}

// checkCut must be called after each new deadline, which may have replaced Cut's.
func (w *Writer) checkCut() error {
	if !w.isCut.Load() {
		return nil
	}
	_ = w.control.SetWriteDeadline(longAgo)
	return blob.ErrCut
}

func (w *Writer) explain(err error) error {
	if w.isCut.Load() {
		return fmt.Errorf("%w: %w", blob.ErrCut, err)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("%w: at least %d bytes in %v are required: %w", ErrSlowReader, w.options.Rate.Bytes, w.options.Rate.Window, err)
	}
	return err
}

// writerOnly and readerOnly hide all other methods, so a copy uses Read and Write.
type writerOnly struct{ io.Writer }
type readerOnly struct{ io.Reader }
