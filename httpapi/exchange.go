package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"sync/atomic"
	"time"

	"sluice/access"
	"sluice/blob"
	"sluice/bytestore"
	"sluice/database"
	"sluice/httpapi/internal/faults"
	"sluice/httpapi/internal/router"
	"sluice/httpapi/internal/transfer"
	"sluice/internal/connlimit"
	"sluice/internal/logbuffer"
	"sluice/internal/metrics"
	"sluice/internal/tracing"
)

// exchange is one request and its response. It is the ResponseWriter of handlers. It sends the
// status with the body's first byte, so that an earlier failure can still become an error response.
type exchange struct {
	r      *http.Request // its Body is body
	params router.Params // the route's
	body   transfer.Reader
	out    transfer.Writer
	conn   *connlimit.Conn // nil: it is not limited

	log      *requestLog
	metrics  *metrics.Requests
	span     *tracing.Request // nil: the exchange is not traced
	replies  *replies
	draining *atomic.Bool          // the service shuts down
	price    func() int64          // a chunkset's
	keys     *access.Authenticator // nil if local
	local    bool                  // the instance is local: every caller may do everything

	timer     bytestore.Timer // context of the request, if the instance is local
	requestID string
	pattern   string // the route's; "" if it is unknown
	began     time.Time
	status    int   // set by the handler; 0: not yet
	started   bool  // the status has been sent
	err       error // why the exchange failed
	probe     bool  // health check or preflight
	dropped   bool  // there is no response: see hold

	fault   *faults.Writer // makes a fault of the response happen; nil: none
	release func()         // called when the stream has ended; may be nil

	// What leave releases, each if it is set.
	slot    slot
	entered *access.Allowance
	left    func() // of entered
	reply   reply

	client        netip.Addr        // address of the client; may be invalid
	forwarded     bool              // a trusted proxy reported client
	caller        *access.Caller    // owner of the key in the request; nil: no valid key
	badCredential error             // why the credential in the request is invalid
	allowance     *access.Allowance // the caller's limits or its address's
	readsFree     bool              // the caller has a key that reads without paying

	// What the route's rule, or the handler, has allowed.
	granted     grant
	grantedMore grant // a copy or a move needs two grants

	header fields // the response's
}

var _ io.ReaderFrom = (*exchange)(nil)

// Header returns the response's header for a package that knows only http.ResponseWriter. Handlers
// of this package use x.header.
func (x *exchange) Header() http.Header {
	return x.header.giveAll()
}

// WriteHeader sets the status, which is sent with the body's first byte or at the exchange's end.
func (x *exchange) WriteHeader(status int) { x.status = status }

// start sends the status and the headers.
func (x *exchange) start() {
	if x.started {
		return
	}
	x.started = true
	if x.status == 0 {
		x.status = http.StatusOK
	}
	if x.local {
		x.insertTiming()
	}
	// Also if the drain began after the request: a connection that remained would be idle only
	// until the drain ends, and a proxy could use it in that moment.
	if x.draining.Load() {
		x.header.set("Connection", "close")
	}
	if x.header.inserts {
		x.out.InsertFields(x.header.text)
	}
	x.out.WriteHeader(x.status)
}

// insertTiming adds Server-Timing, which shows a developer where a response's time is spent.
func (x *exchange) insertTiming() {
	var memory [80]byte
	value := timings{database.Waited(&x.timer, database.Patience), x.timer.Spent(), time.Since(x.began)}.appendTo(memory[:0])
	x.header.set("Server-Timing", string(value))
}

// Write writes to the body.
func (x *exchange) Write(p []byte) (int, error) {
	x.start()
	return x.out.Write(p)
}

// ReadFrom writes the bytes of src to the body, without copying them if the connection can.
func (x *exchange) ReadFrom(src io.Reader) (int64, error) {
	x.start()
	return x.out.ReadFrom(src)
}

// Unwrap returns the underlying writer for http.ResponseController.
func (x *exchange) Unwrap() http.ResponseWriter { return &x.out }

// limit applies the caller's limits to both bodies.
func (x *exchange) limit(a *access.Allowance) {
	x.allowance = a
	x.body.Limit(a)
	x.out.Limit(a)
}

// hold counts the exchange for its caller until the response has been sent completely. Over
// HTTP/1.1 a connection has one response at a time, and the limits of connections bound them. Over
// HTTP/2 any number of streams could wait for a client that does not let anything be sent: if it
// holds too many, the stream is reset without a response, which would have to wait too.
func (x *exchange) hold(a *access.Allowance) error {
	if x.r.ProtoMajor != 2 {
		return nil
	}
	release, ok := a.Hold()
	if !ok {
		x.dropped = true
		return fmt.Errorf("%w: too many responses are waiting for the client", access.ErrConcurrent)
	}
	x.release = release
	return nil
}

// fail sends an error response, or closes the connection if the response has begun: an incomplete
// body must never look complete.
func (x *exchange) fail(err error) {
	x.err = err
	if x.started {
		return
	}
	row := rowOf(err)
	x.metrics.Refused(string(row.code))
	if x.dropped {
		x.status = row.status // for the log
		return
	}
	if x.refusal(row.status) && x.conn.Wasted() {
		x.header.set("Connection", "close")
	}
	if x.r.ProtoMajor == 1 { // over HTTP/2 only the stream ends
		x.drainBody(row.closes)
	}
	x.body.Done()
	p := newProblem(row, x.requestID)
	setPaymentMembers(&p, err, x.price)
	setDoubtMembers(&p, err)
	body, failed := encodeProblem(p)
	if failed == nil {
		x.header.setProblem(row, err, len(body))
		x.WriteHeader(p.Status)
		if x.r.Method != http.MethodHead {
			_, failed = x.Write(body)
		}
	}
	x.err = errors.Join(x.err, failed)
}

// drainBody reads what is left of a refused request's body, so that the connection can be used
// again. If that is impossible or too much, the connection is closed after the response (see
// connlimit.Conn).
func (x *exchange) drainBody(broken bool) {
	// A client that waits for "100 Continue" must not get it now.
	waits := x.r.Header.Get("Expect") != ""
	if !broken && (x.body.Ended() || !waits && x.body.Drain(x.r.ContentLength)) {
		return
	}
	x.header.set("Connection", "close")
	x.body.Abandon()
}

// end completes the exchange and logs it. It must be deferred, because it recovers a handler's
// panic.
func (x *exchange) end() {
	if p := recover(); p != nil {
		x.fail(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
	}
	if x.r.ProtoMajor == 2 {
		// This frees the buffered body now instead of when the response has been read. An error
		// needs no handling because the stream ends.
		_ = x.body.Close()
	} else {
		// This bounds how long the server itself reads the remaining body.
		x.body.Done()
	}
	broken := x.dropped || x.started && x.err != nil && x.status < http.StatusBadRequest
	if !broken {
		x.start()
	}
	if x.fault.Broken() {
		broken, x.err = true, cmp.Or[error](x.err, &requestedFault{x.fault.Fault(), nil})
	}
	x.metrics.Observe(x.pattern, x.methodLabel(), x.status, time.Since(x.began), x.body.Total(), x.out.Written())
	x.conn.End(x.outcome())
	if x.release != nil {
		context.AfterFunc(x.r.Context(), x.release) // a stream's context ends with it
	}
	// Now the client may learn that the request has ended: it is counted no longer.
	if err := x.out.Done(); err != nil {
		broken = true
		x.err = cmp.Or(x.err, err)
	}
	if x.span != nil {
		x.endSpan()
	}
	x.logRequest()
	if broken {
		panic(http.ErrAbortHandler)
	}
}

// outcome returns what the exchange means for its connection.
func (x *exchange) outcome() connlimit.Outcome {
	switch {
	case x.dropped || x.r.ProtoMajor == 2 && x.r.Context().Err() != nil:
		return connlimit.Reset
	case x.err != nil && x.refusal(x.status):
		return connlimit.Refused
	default:
		return connlimit.Served
	}
}

// refusal reports whether an exchange that failed with the status is one that its client can repeat
// in any number: none of the caller's limits bounds it, or it needs nothing that is stored. A line
// of each would fill the disk.
func (x *exchange) refusal(status int) bool {
	switch status {
	case http.StatusTooManyRequests:
		return true
	case http.StatusUnauthorized, http.StatusMethodNotAllowed, statusClientGone:
		return !x.probe
	default:
		return !x.probe && status < http.StatusInternalServerError && x.pattern == "" || x.busy()
	}
}

// busy reports whether the exchange was refused because too many were in progress.
func (x *exchange) busy() bool { return errors.Is(x.err, errTooBusy) }

// source returns who shares a count of refusals: a group of keys, or a network.
func (x *exchange) source() logbuffer.Source {
	if x.caller != nil {
		return logbuffer.Source{Name: "group " + x.caller.Group()}
	}
	client := x.client
	if !client.IsValid() { // refused before it was needed
		client = peerAddress(x.r.RemoteAddr)
	}
	return logbuffer.Source{Network: access.Network(client)}
}

// methodLabel returns the method for the metrics. Clients must not create labels.
func (x *exchange) methodLabel() string {
	if x.pattern == "" {
		return "other"
	}
	return cmp.Or(knownMethods[x.r.Method], "other")
}

// knownMethods has the protocol's methods. The values are for what outlives a request: its own
// Method is a part of its first line, and would keep all of it in memory.
var knownMethods = map[string]string{
	http.MethodGet: http.MethodGet, http.MethodHead: http.MethodHead, http.MethodPut: http.MethodPut,
	http.MethodPost: http.MethodPost, http.MethodDelete: http.MethodDelete, http.MethodOptions: http.MethodOptions,
}

// endSpan ends the exchange's span.
func (x *exchange) endSpan() {
	outcome := tracing.Outcome{
		Route: x.pattern, Method: knownMethods[x.r.Method], Status: x.status, In: x.body.Total(), Out: x.out.Written(),
	}
	if x.err != nil {
		outcome.Error = string(rowOf(x.err).code)
		outcome.Internal = x.level(x.r.Context().Err() != nil) == slog.LevelError
	}
	x.span.End(outcome)
}

// logRequest logs one line about the exchange, which has ended.
func (x *exchange) logRequest() {
	gone := x.r.Context().Err() != nil
	if x.err != nil && (gone || x.started) && x.log.ended() && !errors.Is(x.err, errDraining) {
		x.err = fmt.Errorf("%w: %w", errDraining, x.err)
	}
	level := x.level(gone)
	if !x.log.includes(level, x.err != nil || x.status >= http.StatusBadRequest) {
		return
	}
	if x.err != nil && x.refusal(x.status) && !x.log.refusals.Allow(x.source(), x.status) {
		return
	}
	attrs := append(make([]slog.Attr, 0, 12),
		slog.String("id", x.requestID),
		slog.String("method", x.loggedMethod()),
		slog.String("route", x.pattern),
		slog.Int("status", x.status),
		slog.Int64("bytes_in", x.body.Total()),
		slog.Int64("bytes_out", x.out.Written()),
		slog.Float64("took_seconds", time.Since(x.began).Round(time.Microsecond).Seconds()),
		slog.String("peer", x.r.RemoteAddr),
	)
	if x.forwarded {
		attrs = append(attrs, slog.String("client", x.client.String()))
	}
	if x.caller != nil {
		attrs = append(attrs, slog.String("key", x.caller.ID()))
	}
	if x.span != nil && x.span.Sampled() {
		attrs = append(attrs, slog.String("trace_id", x.span.TraceID()))
	}
	if x.err != nil {
		attrs = append(attrs, slog.String("error", x.err.Error()))
	}
	// Logger.LogAttrs would also look up the line of code.
	record := slog.NewRecord(time.Now(), level, "request", 0)
	record.AddAttrs(attrs...)
	_ = x.log.Handler().Handle(context.Background(), record) // as Logger does
}

// mostMethod is how much of a method is logged, in bytes. Every registered one is shorter.
const mostMethod = 32

// loggedMethod returns the method for the log. Clients must not write long lines.
func (x *exchange) loggedMethod() string {
	if method := x.r.Method; len(method) > mostMethod {
		return method[:mostMethod] + "..."
	}
	return x.r.Method
}

// level returns the exchange's log level. Why a node is not ready is logged once (see readiness)
// and not for each probe, and a drain is no error in the requests that it ends. gone reports
// whether the client has closed the connection, or the server has.
func (x *exchange) level(gone bool) slog.Level {
	switch {
	case (x.probe || x.dropped) && x.status != http.StatusInternalServerError:
		return slog.LevelDebug
	case errors.Is(x.err, blob.ErrCorrupt):
		return slog.LevelError
	case x.err == nil || errors.Is(x.err, errDraining) || x.status < http.StatusInternalServerError || gone:
		return slog.LevelInfo
	default:
		return slog.LevelError
	}
}
