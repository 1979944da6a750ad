package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"sluice/access"
	"sluice/blob"
)

// errSlowReader: the client took the reply below the minimum rate. What was
// sent of it is incomplete.
var errSlowReader = errors.New("the client takes the reply too slowly")

// writeChunk is how much of a reply one deadline covers: one over all of it
// would cut a transfer that moves well.
const writeChunk = 1 << 20

// copyBuffer is the size of the buffer for sources that must be copied.
const copyBuffer = 128 << 10

// progressWriter is a ResponseWriter whose client must keep a pace: each MiB of
// the reply must be taken within the time that it may have at that pace, at
// least one window. Only the time inside Write and ReadFrom counts. The guard
// works by the write deadline of the connection; a ResponseWriter without
// deadlines is not guarded. It is for one goroutine.
type progressWriter struct {
	http.ResponseWriter
	control   http.ResponseController
	pace      pace
	ctx       context.Context   // of the request
	allowance *access.Allowance // of whoever asked; nil: no limits
	strict    bool              // a deadline ends the reply also when it passes between two writes (HTTP/2)
	until     time.Time         // when the reply must have ended; zero: any time
	written   int64             // bytes of the body so far
	isCut     atomic.Bool       // the reply must end now
}

// newProgressWriter guards the reply that goes to w. The caller calls done when
// it has written it.
func newProgressWriter(w http.ResponseWriter, p pace) *progressWriter {
	return &progressWriter{ResponseWriter: w, control: *http.NewResponseController(w), pace: p}
}

// Unwrap gives the guarded ResponseWriter to http.ResponseController.
func (w *progressWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write writes p. errSlowReader when the client falls behind its pace. Beside an
// error over HTTP/2 the count is an upper bound of what went out: what was being
// written when the error came counts as written. Nothing of p behind the count
// was handed to the connection.
func (w *progressWriter) Write(p []byte) (int, error) {
	total := 0
	for {
		chunk := p[total:min(len(p), total+int(w.chunk()))]
		if err := w.next(int64(len(chunk))); err != nil {
			return total, err
		}
		n, err := w.ResponseWriter.Write(chunk)
		if err != nil && w.strict {
			// HTTP/2 does not say how much of the chunk went out before the
			// stream ended: it can be all but the last byte.
			n = len(chunk)
		}
		total += n
		w.written += int64(n)
		if err == nil {
			err = w.rest()
		}
		if err != nil {
			return total, w.explain(err)
		}
		if total >= len(p) {
			return total, nil
		}
	}
}

// ReadFrom writes all of src. A file, limited or not, goes to the ReadFrom of
// the guarded ResponseWriter, which can have the kernel send it (sendfile). Of
// any other source the time that it takes to deliver must not count against
// the client, so that is read first and then written.
func (w *progressWriter) ReadFrom(src io.Reader) (int64, error) {
	limited, isLimited := src.(*io.LimitedReader)
	file := src
	if isLimited {
		file = limited.R
	}
	direct, canSend := w.ResponseWriter.(io.ReaderFrom)
	if _, isFile := file.(syscall.Conn); !isFile || !canSend {
		return io.CopyBuffer(writerOnly{w}, readerOnly{src}, make([]byte, copyBuffer))
	}
	var total int64
	for {
		// Package net looks through one LimitedReader, not two.
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

// done ends the guard. What the server still has to send of its own buffers
// gets one more window; after that it clears the deadline itself. An error
// means that the connection is closed, as it is after a failed write.
func (w *progressWriter) done() error { return w.arm(0) }

// chunk is how many bytes go out at once.
func (w *progressWriter) chunk() int64 {
	if w.allowance == nil {
		return writeChunk
	}
	return min(writeChunk, w.allowance.ChunkOut())
}

// next waits until n bytes may go out, which does not count against the client,
// and then gives them their time.
func (w *progressWriter) next(n int64) error {
	if w.allowance != nil && n > 0 {
		if err := w.allowance.PaceOut(w.ctx, int(n)); err != nil {
			return err
		}
	}
	return w.arm(n)
}

// cut makes the write that is under way fail, and every later one. It may be
// called while another goroutine writes, until the request's handler returns.
func (w *progressWriter) cut() {
	w.isCut.Store(true)
	// Who cannot be given a deadline notices at the next write.
	_ = w.control.SetWriteDeadline(longAgo)
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// rest takes the deadline away until the next write, where it would count.
func (w *progressWriter) rest() error {
	if !w.strict {
		return nil
	}
	if err := w.control.SetWriteDeadline(w.until); err != nil {
		return fmt.Errorf("clearing the write deadline: %w", err)
	}
	return w.checkCut()
}

// arm gives the next n bytes their time.
func (w *progressWriter) arm(n int64) error {
	deadline := time.Now().Add(w.pace.timeFor(n))
	if !w.until.IsZero() && w.until.Before(deadline) {
		deadline = w.until
	}
	err := w.control.SetWriteDeadline(deadline)
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("arming the write deadline: %w", err)
	}
	return w.checkCut()
}

// checkCut follows each change of the deadline: one that came between cut's mark
// and its deadline has undone that.
func (w *progressWriter) checkCut() error {
	if !w.isCut.Load() {
		return nil
	}
	_ = w.control.SetWriteDeadline(longAgo)
	return blob.ErrCut
}

func (w *progressWriter) explain(err error) error {
	if w.isCut.Load() {
		return fmt.Errorf("%w: %w", blob.ErrCut, err)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("%w: at least %d bytes in %v are required: %w", errSlowReader, w.pace.bytes, w.pace.window, err)
	}
	return err
}

// writerOnly and readerOnly hide every other method, so that a copy goes
// through Read and Write.
type writerOnly struct{ io.Writer }
type readerOnly struct{ io.Reader }
