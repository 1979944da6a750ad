package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"sluice/wire"
)

// Pauses between attempts: exponential backoff with full jitter ("Exponential Backoff And Jitter",
// AWS Architecture Blog, 2015).
const (
	firstPause   = 200 * time.Millisecond
	longestPause = 20 * time.Second
)

// do sends r until it succeeds, fails in a way that will not pass, or was sent as often as the
// options permit. The response has a status of 2xx, and the caller must close its body, unless r
// receives it.
//
// It returns an *Error for any other status, ErrInvalid if r cannot be sent, ErrOutcomeUnknown if r
// may have taken effect and is not known to have, and the context's or the network's error
// otherwise.
func (c *Client) do(ctx context.Context, r *request) (*http.Response, error) {
	if err := checkHeader(r.header); err != nil {
		return nil, fmt.Errorf("client: %s: %w", r.name, err)
	}
	inDoubt := false // an earlier attempt may have taken effect
	var failed time.Time
	for attempt := 1; ; attempt++ {
		resp, err := c.try(ctx, r)
		if err == nil {
			c.reached.Store(true)
			return resp, nil
		}
		if failed.IsZero() {
			failed = time.Now()
		}
		if inDoubt && r.refusedByOwnEffect(err) {
			return nil, fmt.Errorf("client: %s: a repeated request was refused, perhaps because of its own effect: %w", r.name, unknown(err))
		}
		inDoubt = inDoubt || mayHaveEffect(r, err)
		if ctx.Err() != nil || attempt >= c.attempts && !c.outlasts(attempt, failed, err) || !repeatable(r, err) || !c.pause(ctx, attempt, failed, err) {
			if inDoubt && !isRefusal(err) {
				err = unknown(err)
			}
			return nil, fmt.Errorf("client: %s: %w", r.name, err)
		}
		c.log.WarnContext(ctx, "A request is repeated.", "operation", r.name, "attempt", attempt, "error", err)
	}
}

// outlasts reports whether RetryFor permits to repeat a request that has failed since a time.
func (c *Client) outlasts(attempt int, since time.Time, err error) bool {
	if !away(err) || !c.reached.Load() || time.Since(since) >= c.retryFor {
		return false
	}
	if attempt == c.attempts && c.onOutage != nil {
		c.onOutage(err)
	}
	return true
}

// away reports whether err means that the service cannot be reached, or does not serve.
func away(err error) bool {
	e, reported := errors.AsType[*Error](err)
	return !reported || e.Status >= http.StatusBadGateway && e.Status <= http.StatusGatewayTimeout
}

// try sends r once. The attempt's watchdog lives until the response's body is closed.
func (c *Client) try(ctx context.Context, r *request) (*http.Response, error) {
	w := newWatchdog(ctx, c.stall)
	if c.onSlow != nil && !r.waits {
		w.slow = time.AfterFunc(slowAfter, func() { c.onSlow(r.name) })
		w.slow.Stop()
	}
	req, err := c.newAttempt(w.ctx, r, w)
	if err != nil {
		w.end()
		return nil, &localError{err}
	}
	w.send()
	watched, req := watchConnection(req)
	// Not through an http.Client: the service redirects nothing, and a key is never sent elsewhere.
	resp, err := c.transport.RoundTrip(req)
	w.receive()
	if err != nil {
		err = watched.explain(w.cause(withoutEOF(err)))
		w.end()
		return nil, err
	}
	if resp.StatusCode/100 == 2 && r.receive == nil {
		resp.Body = &watchedBody{resp.Body, w, c.limitReceive}
		return resp, nil
	}
	resp.Body = &watchedBody{resp.Body, w, nil}
	w.within(bodyStalls * c.stall)
	if resp.StatusCode/100 != 2 {
		return nil, newError(resp, req.URL.Host)
	}
	err = r.receive(resp.Body)
	_ = resp.Body.Close() // whatever is needed of it was read
	if errors.Is(err, ErrBadResponse) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("the response was cut: %w", err)
	}
	return resp, nil
}

// bodyStalls bounds the time in which a body that is no content must arrive, in stall timeouts.
const bodyStalls = 5

// withoutEOF returns a transport's error. It is never io.EOF, which a caller would take for the
// content's end.
func withoutEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// repeatable reports whether r may be sent again after err, and whether that may succeed.
func repeatable(r *request, err error) bool {
	if _, local := errors.AsType[*localError](err); local || errors.Is(err, ErrBadResponse) {
		return false
	}
	e, reported := errors.AsType[*Error](err)
	if !reported {
		if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); untrusted {
			return false
		}
		return r.safety != once || wasNotSent(err)
	}
	switch {
	case e.Code == wire.CodeRolledBack:
		return false // an operator must decide first
	case e.Status == http.StatusTooManyRequests, e.Retryable, e.Code.Row().Retry == wire.RetryLater:
		return true
	case e.Code != "" && e.Status == http.StatusServiceUnavailable:
		return false // the service forbids it
	}
	switch e.Status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return r.safety != once
	}
	return false
}

// mayHaveEffect reports whether r may have changed something although it ended with err.
func mayHaveEffect(r *request, err error) bool {
	if r.safety == readOnly || wasNotSent(err) {
		return false
	}
	if _, local := errors.AsType[*localError](err); local {
		return false
	}
	if e, reported := errors.AsType[*Error](err); reported {
		// A proxy sends these without a code when it lost the connection to the service.
		return e.Code == wire.CodeOutcomeUnknown || e.Code == "" && e.Status >= http.StatusInternalServerError
	}
	return true
}

// isRefusal reports whether the server, asked about the same request again, responded that it has
// no effect. A rate limit and a missing key prove nothing about an earlier attempt.
func isRefusal(err error) bool {
	e, reported := errors.AsType[*Error](err)
	if !reported || e.Code == "" {
		return false
	}
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusUnauthorized, http.StatusForbidden:
		return false
	}
	return e.Status < http.StatusInternalServerError
}

// unsentError is the error of an attempt that got no connection, so that nothing was sent: the host
// is unknown or refuses, or its certificate is not trusted.
type unsentError struct{ error }

func (e *unsentError) Unwrap() error { return e.error }

// wasNotSent reports whether nothing of a request was sent.
func wasNotSent(err error) bool {
	if _, unsent := errors.AsType[*unsentError](err); unsent {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// connectionWatch records whether a request wanted a connection from net/http, and got one.
type connectionWatch struct{ wanted, got atomic.Bool }

// watchConnection returns the request that is to be sent in place of req.
func watchConnection(req *http.Request) (*connectionWatch, *http.Request) {
	c := &connectionWatch{}
	return c, req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GetConn: func(string) { c.wanted.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { c.got.Store(true) },
	}))
}

// explain returns the request's error, as an *unsentError if the request had no connection.
func (c *connectionWatch) explain(err error) error {
	if c.wanted.Load() && !c.got.Load() {
		return &unsentError{err}
	}
	return err
}

// pause waits before the request that failed with err at the given attempt, and first at since, is
// sent again. It reports whether it may be: it returns false immediately if the context ends
// before, or if the server demands a longer pause than the options permit.
func (c *Client) pause(ctx context.Context, attempt int, since time.Time, err error) bool {
	e, reported := errors.AsType[*Error](err)
	if !reported || e.RetryAfter == 0 {
		return waits(ctx, pauseAfter(attempt))
	}
	if e.RetryAfter > c.maxRetryAfter || c.retryFor > 0 && away(err) && time.Since(since)+e.RetryAfter > c.retryFor {
		return false
	}
	pause := e.RetryAfter + rand.N(firstPause)
	if deadline, ok := ctx.Deadline(); c.onWait != nil && (!ok || time.Until(deadline) >= pause) {
		c.onWait(e.RetryAfter, err)
	}
	return waits(ctx, pause)
}

// pauseAfter returns how long to wait after the given attempt: at random up to a bound that doubles
// with each attempt.
func pauseAfter(attempt int) time.Duration {
	bound := longestPause
	if attempt < 8 { // firstPause << 7 exceeds longestPause
		bound = min(bound, firstPause<<(attempt-1))
	}
	return rand.N(bound)
}

// waits waits for d. It reports whether the request may be sent then: it returns false immediately
// if the context ends before.
func waits(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
