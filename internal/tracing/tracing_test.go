package tracing

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"sluice/access/keys"
	"sluice/bytestore"
	"sluice/database"
	"sluice/database/whole"
	"sluice/ledger"
	"sluice/metastore"
	"sluice/test/testenv"
)

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func newRecorder(follow bool) (*Tracer, *tracetest.InMemoryExporter) {
	recorder := tracetest.NewInMemoryExporter()
	return newTracer(sdk.NewTracerProvider(sdk.WithSyncer(recorder)), follow), recorder
}

// TestEveryCallOfARequestHasASpan calls each method that requests use. The stores are
// nil, so that each call panics, below its span.
// Invariant 140.
func TestEveryCallOfARequestHasASpan(t *testing.T) {
	tracer, recorder := newRecorder(true)
	ctx, request := tracer.Request(t.Context(), http.Header{})
	interfaces := []reflect.Type{
		reflect.TypeFor[metastore.Store](), reflect.TypeFor[ledger.Store](), reflect.TypeFor[keys.Store](), reflect.TypeFor[bytestore.Store](),
	}
	for _, i := range interfaces {
		var store reflect.Value
		pkg := "metastore."
		if store = reflect.ValueOf(tracer.Meta(nil)); i == reflect.TypeFor[bytestore.Store]() {
			pkg, store = "bytestore.", reflect.ValueOf(tracer.Bytes(nil))
		}
		for n := range i.NumMethod() {
			name := i.Method(n).Name
			method := store.MethodByName(name)
			if method.Type().NumIn() == 0 || method.Type().In(0) != reflect.TypeFor[context.Context]() {
				continue
			}
			args := []reflect.Value{reflect.ValueOf(ctx)}
			for p := 1; p < method.Type().NumIn(); p++ {
				if !method.Type().IsVariadic() || p < method.Type().NumIn()-1 {
					args = append(args, reflect.Zero(method.Type().In(p)))
				}
			}
			recorder.Reset()
			func() {
				defer func() { _ = recover() }()
				method.Call(args)
			}()
			spans := recorder.GetSpans()
			if len(spans) != 1 || spans[0].Name != pkg+name || spans[0].Parent.SpanID() != request.span.SpanContext().SpanID() {
				t.Errorf("%s%s has the spans %v: run go generate ./internal/tracing, or add the method to byteStore", pkg, name, spans)
			}
		}
	}
	recorder.Reset()
	func() {
		defer func() { _ = recover() }()
		_, _ = tracer.Meta(nil).Blob(t.Context(), "", "")
	}()
	if spans := recorder.GetSpans(); len(spans) != 0 {
		t.Errorf("a call of no request has the spans %v", spans)
	}
}

// TestIncomingTraces checks that a client's trace is followed or linked to, without its tracestate.
// Invariant 140.
func TestIncomingTraces(t *testing.T) {
	for _, follow := range []bool{true, false} {
		tracer, recorder := newRecorder(follow)
		_, request := tracer.Request(t.Context(), http.Header{"Traceparent": {traceparent}, "Tracestate": {"vendor=canary"}, "Baggage": {"name=canary"}})
		request.End(Outcome{Method: "GET", Status: 200})
		span := recorder.GetSpans()[0]
		followed := span.SpanContext.TraceID().String() == strings.Split(traceparent, "-")[1] && span.Parent.SpanID().String() == strings.Split(traceparent, "-")[2]
		linked := len(span.Links) == 1 && span.Links[0].SpanContext.SpanID().String() == strings.Split(traceparent, "-")[2]
		if followed != follow || linked == follow || span.Parent.IsValid() != follow {
			t.Errorf("follow %v: the span is %+v", follow, span)
		}
		if len(span.Links) > 0 && span.Links[0].SpanContext.TraceState().Len() > 0 || span.SpanContext.TraceState().Len() > 0 {
			t.Errorf("follow %v: the tracestate is exported", follow)
		}
	}
	tracer, recorder := newRecorder(false)
	_, request := tracer.Request(t.Context(), http.Header{"Traceparent": {"00-canary"}})
	request.End(Outcome{})
	if span := recorder.GetSpans()[0]; len(span.Links) > 0 || span.Parent.IsValid() {
		t.Errorf("a malformed traceparent has an effect: %+v", span)
	}
}

// TestOutcomes checks names, attributes and statuses.
// Invariant 140.
func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		outcome Outcome
		name    string
		status  codes.Code
		want    []attribute.KeyValue
	}{
		{
			Outcome{Method: "GET", Route: "/v1/info", Status: 200, Out: 7}, "GET /v1/info", codes.Unset,
			[]attribute.KeyValue{keyMethod.String("GET"), keyStatus.Int(200), keyBytesIn.Int64(0), keyBytesOut.Int64(7), keyRoute.String("/v1/info")},
		},
		{
			Outcome{Status: 404, In: 5, Error: "route_not_found"}, "_OTHER", codes.Unset,
			[]attribute.KeyValue{keyMethod.String("_OTHER"), keyStatus.Int(404), keyBytesIn.Int64(5), keyBytesOut.Int64(0), keyError.String("route_not_found")},
		},
		{
			Outcome{Method: "PUT", Status: 500, Error: "internal", Internal: true}, "PUT", codes.Error,
			[]attribute.KeyValue{keyMethod.String("PUT"), keyStatus.Int(500), keyBytesIn.Int64(0), keyBytesOut.Int64(0), keyError.String("internal")},
		},
	} {
		tracer, recorder := newRecorder(false)
		_, request := tracer.Request(t.Context(), http.Header{})
		request.End(c.outcome)
		span := recorder.GetSpans()[0]
		if span.Name != c.name || span.Status.Code != c.status || span.Status.Description != "" || !reflect.DeepEqual(span.Attributes, c.want) {
			t.Errorf("%+v: the span is %+v", c.outcome, span)
		}
	}
}

// failing is a store that fails with err.
type failing struct {
	whole.Database
	err error
}

func (f failing) Blob(context.Context, string, string) (metastore.Blob, error) {
	return metastore.Blob{}, f.err
}

// TestErrorsOfStores checks that an error is described by its kind alone.
// Invariant 140.
func TestErrorsOfStores(t *testing.T) {
	for _, c := range []struct {
		err    error
		kind   string
		status codes.Code
	}{
		{errors.Join(errors.New("canary"), database.ErrUnavailable), "unavailable", codes.Error},
		{database.ErrNotFound, "not_found", codes.Unset},
		{errors.New("canary"), "other", codes.Unset},
	} {
		tracer, recorder := newRecorder(false)
		ctx, _ := tracer.Request(t.Context(), http.Header{})
		if _, err := tracer.Meta(failing{err: c.err}).Blob(ctx, "", ""); !errors.Is(err, c.err) {
			t.Error(err)
		}
		span := recorder.GetSpans()[0]
		if !reflect.DeepEqual(span.Attributes, []attribute.KeyValue{keyError.String(c.kind)}) || span.Status != (sdk.Status{Code: c.status}) || len(span.Events) > 0 {
			t.Errorf("%v: the span is %+v", c.err, span)
		}
	}
}

// TestEnvironmentDecides checks which variables enable tracing.
func TestEnvironmentDecides(t *testing.T) {
	for _, c := range []struct {
		set    string
		on     bool
		logged string
	}{
		{"", false, ""},
		{"OTEL_SERVICE_NAME=x", false, ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", true, ""},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:1", true, ""},
		{"OTEL_TRACES_EXPORTER=otlp", true, ""},
		{"OTEL_TRACES_EXPORTER=none OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", false, ""},
		{"OTEL_SDK_DISABLED=TRUE OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", false, ""},
		{"OTEL_SDK_DISABLED=false OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", true, ""},
		{"OTEL_TRACES_EXPORTER=zipkin", false, "must be otlp or none"},
		{"OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_PROTOCOL=grpc", true, "not supported"},
	} {
		t.Run(c.set, func(t *testing.T) {
			for pair := range strings.FieldsSeq(c.set) {
				name, value, _ := strings.Cut(pair, "=")
				t.Setenv(name, value)
			}
			var log strings.Builder
			tracer, err := Open(t.Context(), Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil || (tracer != nil) != c.on || !strings.Contains(log.String(), c.logged) || (c.logged == "") != (log.Len() == 0) {
				t.Errorf("%v, %v, log %q", tracer, err, log.String())
			}
			if tracer != nil {
				testenv.Check(t, tracer.Close(t.Context()))
			}
		})
	}
}

// TestErrorsOfTheExportAreFewLines checks that an unreachable endpoint is a line a minute.
func TestErrorsOfTheExportAreFewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		l := newErrorLog(slog.New(slog.NewTextHandler(&log, nil)))
		for range 121 {
			l.Handle(errors.New("refused"))
			time.Sleep(time.Second)
		}
		if text := log.String(); strings.Count(text, "\n") != 3 || strings.Count(text, "errors_before=59") != 2 {
			t.Errorf("the log is\n%s", text)
		}
	})
}
