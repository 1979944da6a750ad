package faults

import (
	"context"
	"errors"
	"net/http"
	"time"

	"sluice/internal/task"
)

// ErrCut is returned by a Writer that has sent all that its fault permits.
var ErrCut = errors.New("the response was cut")

// Writer is a ResponseWriter that makes the faults Cut, DropReply and Slow happen to a response. A
// nil Writer has no fault. It is not safe for concurrent use.
type Writer struct {
	http.ResponseWriter
	control *http.ResponseController
	ctx     context.Context
	fault   Fault
	sent    int64 // bytes of the body
	broken  bool
}

// NewWriter returns a Writer to w for a fault, which must be a Cut, DropReply or Slow. Slow ends
// with ctx.
func NewWriter(ctx context.Context, w http.ResponseWriter, f Fault) *Writer {
	return &Writer{ResponseWriter: w, control: http.NewResponseController(w), ctx: ctx, fault: f, broken: f.Kind == DropReply}
}

// Broken reports whether the response is incomplete for the client, so that the connection must be
// closed.
func (w *Writer) Broken() bool { return w != nil && w.broken }

// Fault returns the fault.
func (w *Writer) Fault() Fault { return w.fault }

// Unwrap returns the ResponseWriter for http.ResponseController.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader sends the status and the headers.
func (w *Writer) WriteHeader(status int) {
	if w.fault.Kind != DropReply {
		w.ResponseWriter.WriteHeader(status)
	}
}

// FlushError sends buffered bytes.
func (w *Writer) FlushError() error {
	if w.fault.Kind == DropReply {
		return nil
	}
	return w.control.Flush()
}

// Write sends p, or the part that the fault permits. It returns ErrCut if that is not all.
func (w *Writer) Write(p []byte) (int, error) {
	switch w.fault.Kind {
	case DropReply:
		return len(p), nil
	case Cut:
		return w.writeCut(p)
	default:
		return w.writeSlowly(p)
	}
}

func (w *Writer) writeCut(p []byte) (int, error) {
	allowed := min(int64(len(p)), w.fault.Bytes-w.sent)
	n, err := w.write(p[:allowed])
	if err == nil && n < len(p) {
		w.broken, err = true, ErrCut
	}
	return n, err
}

// writesPerSecond is how often a slow response sends something, if its rate permits.
const writesPerSecond = 10

func (w *Writer) writeSlowly(p []byte) (int, error) {
	step := max(1, w.fault.Bytes/writesPerSecond)
	total := 0
	for total < len(p) {
		end := total + int(min(step, int64(len(p)-total)))
		n, err := w.write(p[total:end])
		total += n
		if err != nil {
			return total, err
		}
		if err := task.Wait(w.ctx, time.Duration(n)*time.Second/time.Duration(w.fault.Bytes)); err != nil {
			return total, err
		}
	}
	return total, nil
}

// write sends p now, and not when a buffer is full.
func (w *Writer) write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.sent += int64(n)
	return n, errors.Join(err, w.control.Flush())
}
