package engine

import (
	"context"

	"github.com/jackc/pgx/v5"

	"sluice/internal/reconnect"
)

// opensAtOnce is how many connections a node opens at once to a server that answers.
const opensAtOnce = 4

// opening makes the pool's attempts to connect pass a gate. It is a tracer because pgx calls
// nothing else both before an attempt and after one that failed.
type opening struct {
	*reconnect.Gate
	hosts *hosts
}

// admitted is the context key for an attempt's admission.
type admitted struct{}

// TraceConnectStart implements pgx.ConnectTracer. It waits until the attempt may begin, or until
// ctx ends, which then ends the attempt, too.
func (o opening) TraceConnectStart(ctx context.Context, data pgx.TraceConnectStartData) context.Context {
	config := data.ConnConfig // the attempt's own
	config.Tracer = nil       // queries are not traced
	attempt, err := o.Enter(ctx)
	if err != nil {
		return ctx
	}
	o.hosts.order(&config.Config)   // as they are now
	if len(config.Fallbacks) == 0 { // no other host waits for its turn
		config.ConnectTimeout = o.Timeout(config.ConnectTimeout)
	}
	return context.WithValue(ctx, admitted{}, attempt)
}

// TraceConnectEnd implements pgx.ConnectTracer.
func (o opening) TraceConnectEnd(ctx context.Context, data pgx.TraceConnectEndData) {
	if attempt, ok := ctx.Value(admitted{}).(reconnect.Attempt); ok {
		attempt.End(data.Err)
	}
}

// TraceQueryStart implements pgx.QueryTracer, as every tracer must.
func (opening) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (opening) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
