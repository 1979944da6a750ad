package tracing

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"sluice/bytestore"
	"sluice/database"
)

// operation is a store call's span, which is nil if the call belongs to no traced request.
type operation struct{ span trace.Span }

// begin starts a span below ctx's span, if that is recorded.
func (t *Tracer) begin(ctx context.Context, name string) (context.Context, operation) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, operation{}
	}
	ctx, span := t.tracer.Start(ctx, name)
	return ctx, operation{span}
}

// end ends a call's span. err is the call's error.
func (o operation) end(err *error) {
	if o.span == nil {
		return
	}
	if *err != nil {
		kind, failed := kindOf(*err)
		o.span.SetAttributes(keyError.String(kind))
		if failed {
			o.span.SetStatus(codes.Error, "")
		}
	}
	o.span.End()
}

// kindOf returns a store error's kind, and whether the store failed. Other errors are answers, such
// as that a precondition is not met.
func kindOf(err error) (kind string, failed bool) {
	for _, k := range []struct {
		is     error
		kind   string
		failed bool
	}{
		{database.ErrUnknownOutcome, "unknown_outcome", true},
		{database.ErrUnavailable, "unavailable", true},
		{database.ErrBusy, "busy", true},
		{database.ErrNoSpace, "no_space", true},
		{bytestore.ErrNoSpace, "no_space", true},
		{bytestore.ErrOverloaded, "overloaded", true},
		{bytestore.ErrTruncated, "truncated", true},
		{context.Canceled, "canceled", false},
		{context.DeadlineExceeded, "timeout", true},
		{database.ErrNotFound, "not_found", false},
		{bytestore.ErrNotFound, "not_found", false},
	} {
		if errors.Is(err, k.is) {
			return k.kind, k.failed
		}
	}
	return "other", false
}
