package exchange

import (
	"net/http"
	"time"

	"sluice/database"
	"sluice/exchange/transfer"
	"sluice/internal/connlimit"
	"sluice/internal/httpconn"
	"sluice/internal/tracing"
	"sluice/wire"
)

// Begin begins an exchange with a request that came through the door. The caller must then defer
// x.End. x must be zero.
func (s *Service) Begin(x *Exchange, door *Door, w http.ResponseWriter, r *http.Request) {
	s.serving.RLock()
	x.service, x.door = s, door
	x.conn = connlimit.FromContext(r.Context())
	x.conn.Begin()
	s.metrics.Begin()
	x.Local = s.keys == nil
	x.RequestID = RequestID(r.Header.Get(wire.HeaderRequestID))
	x.began = time.Now()
	options := transfer.Options{Rate: s.minRate, Context: r.Context(), HTTP2: r.ProtoMajor == 2, Cut: s.cut}
	if r.ProtoMajor == 1 && r.TLS == nil {
		options.Conn = httpconn.FromContext(r.Context())
	}
	x.Out.Init(w, options)
	x.Body.Init(w, r.Body, options)
	x.Fields.header, x.Fields.inserts = w.Header(), x.Out.CanInsert()
	// A copy, because the server itself reads the original body's rest after the response.
	ctx := database.WithPatience(r.Context(), database.Patience)
	if s.tracer != nil {
		var span tracing.Request
		ctx, span = s.tracer.Request(ctx, r.Header)
		x.span = &span
	}
	if x.Local {
		x.timer.Context = ctx
		ctx = &x.timer
	}
	x.Request = r.WithContext(ctx)
	x.Request.Body = &x.Body
}

// Open sets the fields of every response, and refuses a request that this host or the page's origin
// does not allow.
func (x *Exchange) Open() error {
	x.Fields.Set(wire.HeaderRequestID, x.RequestID)
	x.Fields.Set("Referrer-Policy", "no-referrer")
	x.Fields.Set("X-Content-Type-Options", "nosniff")
	// A chunked body may have had a Content-Length, which net/http removes silently. A proxy
	// may have trusted that length, so the connection must not be reused (RFC 9112, section 6.1).
	if r := x.Request; r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		x.Fields.Set("Connection", "close")
	}
	return x.service.origins.admit(x.Request, &x.Fields, x.door.Exposed, x.door.Host)
}
