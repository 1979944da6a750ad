package tracing

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Request is a request's span.
type Request struct{ span trace.Span }

// Request starts a span for the request that has these headers. The caller must End it.
func (t *Tracer) Request(ctx context.Context, header http.Header) (context.Context, Request) {
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer)}
	if remote := incoming(header); remote.IsValid() {
		if t.follow {
			ctx = trace.ContextWithRemoteSpanContext(ctx, remote)
		} else {
			options = append(options, trace.WithNewRoot(), trace.WithLinks(trace.Link{SpanContext: remote}))
		}
	}
	ctx, span := t.tracer.Start(ctx, "request", options...)
	return ctx, Request{span}
}

// incoming returns the context that a request names in traceparent (W3C Trace Context), without its
// tracestate, which is a text that the client wrote.
func incoming(header http.Header) trace.SpanContext {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.HeaderCarrier(header))
	return trace.SpanContextFromContext(ctx).WithTraceState(trace.TraceState{})
}

// Outcome describes a request that has ended.
type Outcome struct {
	Method   string // "" if it is not a standard one
	Route    string // the path's pattern; "" if there is no such route
	Status   int
	In, Out  int64  // bytes of bodies
	Error    string // the error code; "" if there was none
	Internal bool   // the service failed
}

// End ends the span.
func (r Request) End(o Outcome) {
	if !r.span.IsRecording() {
		return
	}
	name := o.Method
	if name == "" {
		name = otherMethod
	}
	r.span.SetAttributes(keyMethod.String(name), keyStatus.Int(o.Status), keyBytesIn.Int64(o.In), keyBytesOut.Int64(o.Out))
	if o.Route != "" {
		r.span.SetAttributes(keyRoute.String(o.Route))
		name += " " + o.Route
	}
	if o.Error != "" {
		r.span.SetAttributes(keyError.String(o.Error))
	}
	r.span.SetName(name)
	if o.Internal {
		r.span.SetStatus(codes.Error, "")
	}
	r.span.End()
}

// Sampled reports whether the span is exported.
func (r Request) Sampled() bool { return r.span.SpanContext().IsSampled() }

// TraceID returns the trace's id in hexadecimal digits.
func (r Request) TraceID() string { return r.span.SpanContext().TraceID().String() }
