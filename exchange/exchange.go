package exchange

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
	"strings"
	"time"

	"sluice/access"
	"sluice/bytestore"
	"sluice/database"
	"sluice/exchange/transfer"
	"sluice/integrity"
	"sluice/internal/auditlog"
	"sluice/internal/connlimit"
	"sluice/internal/logbuffer"
	"sluice/internal/tracing"
)

// Exchange is one request and its response. It is the ResponseWriter of handlers. It sends the
// status with the body's first byte, so that an earlier failure can still become an error response.
//
// An interface embeds it in its own type, calls Service.Begin and defers End. Its exported fields
// are for the handlers.
type Exchange struct {
	Request   *http.Request // its Body is Body
	Body      transfer.Reader
	Out       transfer.Writer
	Fields    Fields // the response's
	RequestID string
	Pattern   string // the route's, for the log and the metrics; "" if it is unknown
	Local     bool   // the instance is local: every caller may do everything
	Probe     bool   // it is a health check or a preflight

	Client        netip.Addr        // the client's address; may be invalid
	Caller        *access.Caller    // owner of the request's key; nil: no valid key
	BadCredential error             // why the credential in the request is invalid
	Allowance     *access.Allowance // the caller's limits or its address's
	Access        auditlog.Access   // to a blob, for the audit log; its Bytes are set when it has taken effect

	door    *Door
	service *Service
	conn    *connlimit.Conn  // nil: it is not limited
	span    *tracing.Request // nil: the exchange is not traced

	timer   bytestore.Timer // the context, if the instance is local
	began   time.Time
	status  int   // set by the handler; 0: not yet
	started bool  // the status has been sent
	err     error // why the exchange failed
	dropped bool  // there is no response: see hold

	breaks  func() error // see BreakIf; may be nil
	release func()       // called when the stream has ended; may be nil

	// leave releases these, each if it is set.
	slot     slot
	rested   context.Context // the request's, since the first Rest; nil before
	entered  *access.Allowance
	left     func() // of entered
	reply    reply
	document reply // in the request

	forwarded bool // a trusted proxy reported Client

	// The grants by the route's rule, or by the handler.
	granted     grant
	grantedMore []grant // a copy or a move needs several
	onlyCreates bool    // see GrantCreate
}

// Door is an interface's part in its exchanges.
type Door struct {
	Errors *Errors // the codes and statuses of its errors
	// Refuse sets an error response's fields and returns its body. row was made for cause.
	Refuse func(x *Exchange, row Row, cause error) (body []byte, err error)
	// Host reports whether a local instance accepts requests for this host, without its port, in
	// addition to the hosts in Config.Local. nil: there are no more.
	Host func(host string) bool
	// Exposed are the header fields that pages of other origins may read, separated by ", ".
	Exposed string
}

var _ io.ReaderFrom = (*Exchange)(nil)

// Header returns the response's header for a package that knows only http.ResponseWriter. Handlers
// use Fields.
func (x *Exchange) Header() http.Header {
	return x.Fields.All()
}

// WriteHeader sets the status, which is sent with the body's first byte or at the exchange's end.
func (x *Exchange) WriteHeader(status int) { x.status = status }

// start sends the status and the headers.
func (x *Exchange) start() {
	if x.started {
		return
	}
	x.started = true
	if x.status == 0 {
		x.status = http.StatusOK
	}
	if x.Local {
		x.insertTiming()
	}
	// Even if the drain began after the request: a connection that remained would be idle only
	// until the drain ends, and a proxy could use it in that moment.
	if x.service.draining.Load() {
		x.Fields.Set("Connection", "close")
	}
	if x.Fields.inserts {
		x.Out.InsertFields(x.Fields.text)
	}
	x.Out.WriteHeader(x.status)
}

// insertTiming adds Server-Timing, which shows a developer where a response's time is spent.
func (x *Exchange) insertTiming() {
	var memory [80]byte
	value := timings{database.Waited(&x.timer, database.Patience), x.timer.Spent(), time.Since(x.began)}.appendTo(memory[:0])
	x.Fields.Set("Server-Timing", string(value))
}

// Write writes to the body.
func (x *Exchange) Write(p []byte) (int, error) {
	x.start()
	return x.Out.Write(p)
}

// ReadFrom writes the bytes of src to the body, without copying them if the connection can.
func (x *Exchange) ReadFrom(src io.Reader) (int64, error) {
	x.start()
	return x.Out.ReadFrom(src)
}

// Unwrap returns the underlying writer for http.ResponseController.
func (x *Exchange) Unwrap() http.ResponseWriter { return &x.Out }

// limit applies the caller's limits to both bodies.
func (x *Exchange) limit(a *access.Allowance) {
	x.Allowance = a
	x.Body.Limit(a)
	x.Out.Limit(a)
}

// hold counts the exchange for its caller until the response has been sent completely. Over
// HTTP/1.1 a connection has one response at a time, and the limits of connections bound them. Over
// HTTP/2 any number of streams could wait for a client that does not let anything be sent: if it
// holds too many, the stream is reset without a response, which would have to wait too.
func (x *Exchange) hold(a *access.Allowance) error {
	if x.Request.ProtoMajor != 2 {
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

// Fail sends an error response, or closes the connection if the response has begun: an incomplete
// body must never look complete.
func (x *Exchange) Fail(err error) {
	x.err = err
	if x.started {
		return
	}
	row := x.door.Errors.RowOf(err)
	x.service.metrics.Refused(string(row.Code))
	if x.dropped {
		x.status = row.Status // for the log
		return
	}
	if x.refusal(row.Status) && x.conn.Wasted() {
		x.Fields.Set("Connection", "close")
	}
	if x.Request.ProtoMajor == 1 { // over HTTP/2 only the stream ends
		x.drainBody(row.Closes)
	}
	x.Body.Done()
	if errors.Is(err, access.ErrBlocked) {
		x.Fields.Set("Link", x.service.blockedBy)
	}
	body, failed := x.door.Refuse(x, row, err)
	if failed == nil {
		x.WriteHeader(row.Status)
		if x.Request.Method != http.MethodHead {
			_, failed = x.Write(body)
		}
	}
	x.err = errors.Join(x.err, failed)
}

// Scheme returns the scheme by which the client has sent the request, as far as is known: "https"
// if it came over TLS, to this node or to a trusted proxy, which reports that in X-Forwarded-Proto,
// and else "http".
func (x *Exchange) Scheme() string {
	if x.Request.TLS != nil || x.proxied() && strings.EqualFold(x.Request.Header.Get("X-Forwarded-Proto"), "https") {
		return "https"
	}
	return "http"
}

// Secure reports whether nobody on the network can have changed the request, as far as is known: it
// came over TLS, or from this machine.
func (x *Exchange) Secure() bool {
	return x.Scheme() == "https" || !x.proxied() && peerAddress(x.Request.RemoteAddr).IsLoopback()
}

// proxied reports whether a trusted proxy has sent the request.
func (x *Exchange) proxied() bool {
	return contains(x.service.trustedProxies, peerAddress(x.Request.RemoteAddr))
}

// drainBody reads a refused request's body to its end, so that the connection can be used again. If
// that is impossible or too much, the connection is closed after the response (see connlimit.Conn).
func (x *Exchange) drainBody(broken bool) {
	// A client that waits for "100 Continue" must not get it now.
	waits := x.Request.Header.Get("Expect") != ""
	if !broken && (x.Body.Ended() || !waits && x.Body.Drain(x.Request.ContentLength)) {
		return
	}
	x.Fields.Set("Connection", "close")
	x.Body.Abandon()
}

// End completes the exchange and logs it. It must be deferred, because it recovers a handler's
// panic.
func (x *Exchange) End() {
	defer x.service.serving.RUnlock()
	if p := recover(); p != nil {
		x.Fail(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
	}
	if x.Request.ProtoMajor == 2 {
		// This frees the buffered body now instead of when the response has been read. An error
		// needs no handling because the stream ends.
		_ = x.Body.Close()
	} else {
		// This bounds how long the server itself reads the remaining body.
		x.Body.Done()
	}
	broken := x.dropped || x.started && x.err != nil && x.status < http.StatusBadRequest
	if !broken {
		x.start()
	}
	if x.breaks != nil {
		if reason := x.breaks(); reason != nil {
			broken, x.err = true, cmp.Or(x.err, reason)
		}
	}
	if x.rested != nil {
		x.service.metrics.Begin()
	}
	x.service.metrics.Observe(x.Pattern, x.methodLabel(), x.status, time.Since(x.began), x.Body.Total(), x.Out.Written())
	x.conn.End(x.outcome())
	if x.release != nil {
		context.AfterFunc(x.Request.Context(), x.release) // a stream's context ends with it
	}
	// Now the client may learn that the request has ended: it is counted no longer.
	if err := x.Out.Done(); err != nil {
		broken = true
		x.err = cmp.Or(x.err, err)
	}
	if x.span != nil {
		x.endSpan()
	}
	x.logRequest()
	x.auditAccess()
	if broken {
		panic(http.ErrAbortHandler)
	}
}

// BreakIf makes the exchange close the connection at its end if breaks returns an error, which is
// called when the response has been written. The error is for the log.
func (x *Exchange) BreakIf(breaks func() error) { x.breaks = breaks }

// outcome returns the exchange's outcome for its connection.
func (x *Exchange) outcome() connlimit.Outcome {
	switch {
	case x.dropped || x.Request.ProtoMajor == 2 && x.Request.Context().Err() != nil:
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
func (x *Exchange) refusal(status int) bool {
	switch status {
	case http.StatusTooManyRequests:
		return true
	case http.StatusForbidden: // as S3 refuses requests without a key
		return !x.Probe && x.anonymous()
	case http.StatusUnauthorized, http.StatusMethodNotAllowed, statusClientGone:
		return !x.Probe
	default:
		return !x.Probe && status < http.StatusInternalServerError && (x.Pattern == "" || x.BadCredential != nil) || x.busy()
	}
}

// anonymous reports whether the caller of a hosted service has sent no valid key.
func (x *Exchange) anonymous() bool { return !x.Local && x.Caller == nil }

// busy reports whether the exchange was refused because too many were in progress.
func (x *Exchange) busy() bool { return errors.Is(x.err, ErrTooBusy) }

// source returns who shares a count of refusals: a group of keys, or a network.
func (x *Exchange) source() logbuffer.Source {
	if x.Caller != nil {
		return logbuffer.Source{Name: "group " + x.Caller.Group()}
	}
	client := x.Client
	if !client.IsValid() { // refused before it was needed
		client = peerAddress(x.Request.RemoteAddr)
	}
	return logbuffer.Source{Network: access.Network(client)}
}

// methodLabel returns the method for the metrics. Clients must not create labels.
func (x *Exchange) methodLabel() string {
	if x.Pattern == "" {
		return "other"
	}
	return cmp.Or(knownMethods[x.Request.Method], "other")
}

// knownMethods has the protocol's methods. Records that outlive a request use these values: the
// request's own Method is a part of its first line, and would keep all of it in memory.
var knownMethods = map[string]string{
	http.MethodGet: http.MethodGet, http.MethodHead: http.MethodHead, http.MethodPut: http.MethodPut,
	http.MethodPost: http.MethodPost, http.MethodDelete: http.MethodDelete, http.MethodOptions: http.MethodOptions,
}

func (x *Exchange) endSpan() {
	outcome := tracing.Outcome{
		Route: x.Pattern, Method: knownMethods[x.Request.Method], Status: x.status, In: x.Body.Total(), Out: x.Out.Written(),
	}
	if x.err != nil {
		outcome.Error = string(x.door.Errors.RowOf(x.err).Code)
		outcome.Internal = x.level(x.Request.Context().Err() != nil) == slog.LevelError
	}
	x.span.End(outcome)
}

// logRequest logs one line about the exchange, which has ended.
func (x *Exchange) logRequest() {
	gone := x.Request.Context().Err() != nil
	if x.err != nil && (gone || x.started) && x.service.log.ended() && !errors.Is(x.err, ErrDraining) {
		x.err = fmt.Errorf("%w: %w", ErrDraining, x.err)
	}
	level := x.level(gone)
	if !x.service.log.includes(level, x.err != nil || x.status >= http.StatusBadRequest) {
		return
	}
	if x.err != nil && x.refusal(x.status) && !x.service.log.refusals.Allow(x.source(), x.status) {
		return
	}
	attrs := append(make([]slog.Attr, 0, 12),
		slog.String("id", x.RequestID),
		slog.String("method", x.loggedMethod()),
		slog.String("route", x.Pattern),
		slog.Int("status", x.status),
		slog.Int64("bytes_in", x.Body.Total()),
		slog.Int64("bytes_out", x.Out.Written()),
		slog.Float64("took_seconds", time.Since(x.began).Round(time.Microsecond).Seconds()),
		slog.String("peer", x.Request.RemoteAddr),
	)
	if x.forwarded {
		attrs = append(attrs, slog.String("client", x.Client.String()))
	}
	if x.Caller != nil {
		attrs = append(attrs, slog.String("key", x.Caller.ID()))
	}
	if x.span != nil && x.span.Sampled() {
		attrs = append(attrs, slog.String("trace_id", x.span.TraceID()))
	}
	if x.err != nil {
		attrs = append(attrs, slog.String("error", x.err.Error()))
	}
	if x.service.log.paths {
		attrs = append(attrs, slog.String("path", loggedPath(x.Pattern, x.Request.URL.Path)))
		if x.err != nil {
			attrs = append(attrs, slog.String("code", string(x.door.Errors.RowOf(x.err).Code)))
		}
	}
	// Logger.LogAttrs would also look up the line of code.
	record := slog.NewRecord(time.Now(), level, "request", 0)
	record.AddAttrs(attrs...)
	_ = x.service.log.Handler().Handle(context.Background(), record) // as Logger does
}

// mostMethod bounds a logged method, in bytes. Every registered one is shorter.
const mostMethod = 32

// loggedMethod returns the method for the log. Clients must not write long lines.
func (x *Exchange) loggedMethod() string {
	if method := x.Request.Method; len(method) > mostMethod {
		return method[:mostMethod] + "..."
	}
	return x.Request.Method
}

// level returns the exchange's log level. Why a node is not ready is logged once (see readiness)
// and not for each probe, and a drain is no error in the requests that it ends. gone reports
// whether the client has closed the connection, or the server has.
func (x *Exchange) level(gone bool) slog.Level {
	switch {
	case (x.Probe || x.dropped) && x.status != http.StatusInternalServerError:
		return slog.LevelDebug
	case errors.Is(x.err, integrity.ErrCorrupt):
		return slog.LevelError
	case x.err == nil || errors.Is(x.err, ErrDraining) || x.status < http.StatusInternalServerError || gone:
		return slog.LevelInfo
	default:
		return slog.LevelError
	}
}
