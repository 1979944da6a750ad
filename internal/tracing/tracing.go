// Package tracing exports traces of requests with OpenTelemetry, configured by its standard
// environment variables.
//
// A span carries nothing that a client has sent: no URL, name, id, query or parameter of SQL. The
// attributes in attributes.go are all that exist.
package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Tracer starts spans and exports them. It is safe for concurrent use. The caller must Close it.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	follow   bool
}

// Options configure a Tracer.
type Options struct {
	Version string
	// Follow makes a request part of the trace that its traceparent names. Otherwise it begins a
	// trace, which has a link to that one: strangers must not choose which requests are sampled.
	Follow bool
	Log    *slog.Logger
}

// Open returns a Tracer, or nil if the environment does not enable tracing: by
// OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_TRACES_EXPORTER=otlp,
// unless OTEL_SDK_DISABLED is true or OTEL_TRACES_EXPORTER is none. It does not connect. An
// endpoint that cannot be reached is logged, and spans that wait for it are dropped when they are
// too many.
func Open(ctx context.Context, o Options) (*Tracer, error) {
	if !enabled(o.Log) {
		return nil, nil
	}
	otel.SetLogger(logr.FromSlogHandler(o.Log.Handler()))
	otel.SetErrorHandler(newErrorLog(o.Log))
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("starting the export of traces: check the variables OTEL_EXPORTER_OTLP_...: %w", err)
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "sluice"), attribute.String("service.version", o.Version)), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("describing the service in traces: check OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	// The provider reads OTEL_TRACES_SAMPLER, OTEL_BSP_... and the limits of spans.
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about))
	return newTracer(provider, o.Follow), nil
}

func newTracer(provider *sdk.TracerProvider, follow bool) *Tracer {
	return &Tracer{provider, provider.Tracer("sluice"), follow}
}

// enabled reports whether the environment enables tracing. It logs values that are not supported.
func enabled(log *slog.Logger) bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	exporter := os.Getenv("OTEL_TRACES_EXPORTER")
	endpoint := os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	switch {
	case exporter == "none", exporter == "" && !endpoint:
		return false
	case exporter != "" && exporter != "otlp":
		log.Warn("no traces are exported: OTEL_TRACES_EXPORTER must be otlp or none", "value", exporter)
		return false
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"} {
		if protocol := os.Getenv(name); protocol != "" && protocol != "http/protobuf" {
			log.Warn("traces are exported by http/protobuf: another protocol is not supported", "variable", name, "value", protocol)
		}
	}
	return true
}

// Close exports the spans that have ended, until ctx ends.
func (t *Tracer) Close(ctx context.Context) error {
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("exporting the last traces: %w", err)
	}
	return nil
}
