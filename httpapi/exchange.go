package httpapi

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"time"

	"sluice/access"
	"sluice/blob"
	"sluice/metastore"
	"sluice/wire"
)

// exchange is one request and the reply to it. It is the ResponseWriter that
// handlers write to: it keeps the status back until the first byte, so that a
// failure before it can still become an error reply.
type exchange struct {
	out       *progressWriter
	body      *progressReader // of r
	s         *Server
	r         *http.Request
	requestID string
	pattern   string // of the route; empty for an unknown one
	began     time.Time
	status    int   // given by the handler; 0: not yet
	started   bool  // the status line is out
	err       error // what went wrong
	probe     bool  // a probe or a preflight, of which there are many
	dropped   bool  // there is no reply, see hold

	release func() // to be called when the stream has ended; nil: it holds no place

	client        netip.Addr        // where the request comes from, behind trusted proxies; invalid: not asked
	caller        *access.Caller    // whose key was sent; nil: nobody's
	badCredential error             // why the credential that was sent is none
	allowance     *access.Allowance // the limits of the caller, or of his address
	readsFree     bool              // the caller's key pays for what he reads
}

var _ io.ReaderFrom = (*exchange)(nil)

func (s *Server) newExchange(w http.ResponseWriter, r *http.Request) *exchange {
	// A copy: the server knows its own body by what the request holds, and
	// answers before it reads what was left of it.
	own := r.WithContext(metastore.WithPatience(r.Context(), metastore.Patience))
	body := newProgressReader(w, r.Body, s.pace)
	own.Body = body
	body.ctx, body.strict, body.cut = r.Context(), r.ProtoMajor == 2, s.cut
	out := newProgressWriter(w, s.pace)
	out.ctx, out.strict = r.Context(), r.ProtoMajor == 2
	return &exchange{
		out:       out,
		body:      body,
		s:         s,
		r:         own,
		requestID: requestID(r.Header.Get(wire.HeaderRequestID)),
		began:     time.Now(),
	}
}

// requestID takes over a caller's id when it is fit for a log, or makes one.
func requestID(given string) string {
	const limit = 128
	if given == "" || len(given) > limit {
		return rand.Text()
	}
	for i := range len(given) {
		c := given[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return rand.Text()
		}
	}
	return given
}

// Header gives the headers of the reply.
func (x *exchange) Header() http.Header { return x.out.Header() }

// WriteHeader sets the status. It is sent with the first byte of the body, or
// at the end of the exchange.
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
	x.out.WriteHeader(x.status)
}

// Write sends bytes of the body.
func (x *exchange) Write(p []byte) (int, error) {
	x.start()
	return x.out.Write(p)
}

// ReadFrom sends bytes of the body straight from src, without a copy where the
// connection can.
func (x *exchange) ReadFrom(src io.Reader) (int64, error) {
	x.start()
	return x.out.ReadFrom(src)
}

// Unwrap gives the writer beneath, for http.ResponseController.
func (x *exchange) Unwrap() http.ResponseWriter { return x.out }

// fail answers with the error, or cuts the connection when the reply has begun:
// a short body must never look complete.
func (x *exchange) fail(err error) {
	x.err = err
	if x.started {
		return
	}
	row := rowOf(err)
	if x.dropped {
		x.status = row.status // for the log
		return
	}
	if x.r.ProtoMajor == 1 { // over HTTP/2 a stream ends by itself
		x.spareConnection(row.closes)
	}
	x.body.done()
	if err := writeProblem(x, row, err); err != nil {
		x.err = errors.Join(x.err, err)
	}
}

// spareConnection reads off what is left of the body of a refused request, so
// that the connection can be used again. When it cannot, or that is too much, the
// connection ends with the reply, and reads off more then (see Connections).
func (x *exchange) spareConnection(broken bool) {
	// A client that waits to be asked for the body must not be asked now.
	waits := x.r.Header.Get("Expect") != ""
	if !broken && (x.body.ended() || !waits && x.body.drain(x.r.ContentLength)) {
		return
	}
	x.Header().Set("Connection", "close")
	x.body.abandon()
}

// end finishes the exchange and logs it.
func (x *exchange) end() {
	if p := recover(); p != nil {
		x.fail(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
	}
	if x.r.ProtoMajor == 2 {
		// What has come of a body goes now, and not when the reply was taken. For an
		// error there is nothing to do: the stream ends by itself.
		_ = x.body.Close()
	} else {
		// The server reads off what is left of a body: not without end.
		x.body.done()
	}
	broken := x.dropped || x.started && x.err != nil && x.status < http.StatusBadRequest
	if !broken {
		x.start()
	}
	if err := x.out.done(); err != nil && x.err == nil {
		x.err = err
	}
	x.log()
	x.s.metrics.note(x)
	if x.release != nil {
		context.AfterFunc(x.r.Context(), x.release) // the context of a stream ends with it
	}
	if broken {
		panic(http.ErrAbortHandler)
	}
}

// log writes one line about the exchange.
func (x *exchange) log() {
	level := x.level()
	ctx := context.WithoutCancel(x.r.Context())
	if !x.s.Log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("id", x.requestID),
		slog.String("method", x.r.Method),
		slog.String("route", x.pattern),
		slog.Int("status", x.status),
		slog.Int64("sent", x.out.written),
		slog.Duration("took", time.Since(x.began)),
		slog.String("peer", x.r.RemoteAddr),
	}
	if x.client.IsValid() && x.client != peerAddress(x.r.RemoteAddr) {
		attrs = append(attrs, slog.String("client", x.client.String()))
	}
	if x.caller != nil {
		attrs = append(attrs, slog.String("key", x.caller.ID()))
	}
	if x.err != nil {
		attrs = append(attrs, slog.String("error", x.err.Error()))
	}
	x.s.Log.LogAttrs(ctx, level, "request", attrs...)
}

// level returns how much the log wants to know of the exchange. Why a node is not
// ready is logged once (see readiness), and not for each probe.
func (x *exchange) level() slog.Level {
	gone := x.r.Context().Err() != nil
	switch {
	case (x.probe || x.dropped) && x.status != http.StatusInternalServerError:
		return slog.LevelDebug
	case x.err != nil && (errors.Is(x.err, blob.ErrCorrupt) || x.status >= http.StatusInternalServerError && !gone):
		return slog.LevelError
	default:
		return slog.LevelInfo
	}
}
