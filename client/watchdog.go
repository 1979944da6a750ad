package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// errStalled ends an attempt in which nothing moved for the stall timeout.
var errStalled = errors.New("the transfer stalled")

// slowAfter is how long nothing must move before Options.OnSlow is called.
const slowAfter = 3 * time.Second

// watchdog ends an attempt that stalls. It counts only the time in which it waits for the network.
// It does not count while a body's source is read, or while the caller does not read the response.
type watchdog struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timeout time.Duration

	mu      sync.Mutex
	timer   *time.Timer
	slow    *time.Timer // calls Options.OnSlow; nil if there is none
	bound   *time.Timer // for a whole body; nil if there is none
	sending bool        // until the response has arrived
}

// within ends the attempt unless it ends by itself within d.
func (w *watchdog) within(d time.Duration) {
	w.bound = time.AfterFunc(d, func() { w.cancel(fmt.Errorf("%w: the response was not complete after %v", errStalled, d)) })
}

// newWatchdog returns a watchdog that does not run yet. It must be ended.
func newWatchdog(parent context.Context, timeout time.Duration) *watchdog {
	ctx, cancel := context.WithCancelCause(parent)
	w := &watchdog{ctx: ctx, cancel: cancel, timeout: timeout}
	w.timer = time.AfterFunc(timeout, func() { cancel(fmt.Errorf("%w: no byte was transferred for %v", errStalled, timeout)) })
	w.timer.Stop()
	return w
}

// send is called before the request is sent, and receive when its response has arrived.
func (w *watchdog) send()    { w.run(true, true) }
func (w *watchdog) receive() { w.run(false, false) }

func (w *watchdog) run(sending, running bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sending = sending
	w.set(running)
}

func (w *watchdog) set(running bool) {
	if running {
		w.timer.Reset(w.timeout)
	} else {
		w.timer.Stop()
	}
	switch {
	case w.slow == nil:
	case running && w.sending:
		w.slow.Reset(slowAfter)
	default:
		w.slow.Stop()
	}
}

// source reports whether the request is waiting for the network, and not for its own source.
func (w *watchdog) source(waiting bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sending { // net/http may read the body after the response arrived
		w.set(waiting)
	}
}

// end releases the attempt's resources.
func (w *watchdog) end() {
	w.receive()
	if w.bound != nil {
		w.bound.Stop()
	}
	w.cancel(nil)
}

// cause returns the reason for err: that the attempt stalled, if it did.
func (w *watchdog) cause(err error) error {
	if cause := context.Cause(w.ctx); errors.Is(cause, errStalled) {
		return cause
	}
	return err
}

// limitedBytes is how many bytes are read at a time if a function of Options limits them: few, so
// that they move evenly.
const limitedBytes = 8 << 10

// limited reads up to limitedBytes and waits until that many are permitted, if limit is not nil.
func limited(ctx context.Context, from io.Reader, p []byte, limit func(context.Context, int64) error) (int, error) {
	if limit == nil {
		return from.Read(p)
	}
	n, err := from.Read(p[:min(len(p), limitedBytes)])
	if n > 0 {
		if limitErr := limit(ctx, int64(n)); limitErr != nil {
			return n, &localError{limitErr}
		}
	}
	return n, err
}

// watchedSource is a request's body.
type watchedSource struct {
	io.Reader
	w     *watchdog
	limit func(context.Context, int64) error // nil: none
}

func (s *watchedSource) Read(p []byte) (int, error) {
	s.w.source(false)
	defer s.w.source(true)
	return limited(s.w.ctx, s.Reader, p, s.limit)
}

func (s *watchedSource) Close() error {
	if closer, ok := s.Reader.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

// watchedBody is a response's body. Closing it ends the attempt.
type watchedBody struct {
	io.ReadCloser
	w     *watchdog
	limit func(context.Context, int64) error // nil: none
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := limited(b.w.ctx, watchedReader{b.ReadCloser, b.w}, p, b.limit)
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.w.cause(err)
	}
	return n, err
}

// watchedReader lets the watchdog run while it reads.
type watchedReader struct {
	io.Reader
	w *watchdog
}

func (r watchedReader) Read(p []byte) (int, error) {
	r.w.run(false, true)
	defer r.w.receive()
	return r.Reader.Read(p)
}

func (b *watchedBody) Close() error {
	err := b.ReadCloser.Close()
	b.w.end()
	return err
}
