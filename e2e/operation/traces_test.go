package operation

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"

	traces "go.opentelemetry.io/proto/otlp/trace/v1"
)

func attributeOf(span *traces.Span, key string) string {
	for _, a := range span.Attributes {
		if a.Key == key {
			if text := a.Value.GetStringValue(); text != "" {
				return text
			}
			return fmt.Sprint(a.Value.GetIntValue())
		}
	}
	return ""
}

// TestTraces checks the spans for requests and for their calls to the stores, and that the log
// names the traces. The server exports the spans when its drain ends.
// Invariant 140.
func TestTraces(t *testing.T) {
	t.Parallel()
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for _, profile := range []string{"local", "hosted"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			c := e2e.NewTraceCollector(t)
			o := e2e.Options{Wrapper: c.Environment("OTEL_SERVICE_NAME=blobs", "OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test")}
			if profile == "hosted" {
				o.Flags = append(e2e.HostedChoices("public"), "--admin-addr", "off", "--drain-wait", "0s")
			}
			s := e2e.Start(t, o)
			at := s
			if profile == "hosted" {
				at = s.AsAdmin()
			}
			at.Must(204, "PUT", e2e.BlobTarget("0x1", "name"), e2e.Content(1, 100_000), "Traceparent", "00-"+trace+"-"+parent+"-01", "Tracestate", "vendor=canary")
			at.Must(200, "GET", e2e.BlobTarget("0x1", "name"), nil)
			at.Must(404, "GET", e2e.BlobTarget("0x1", "none"), nil)
			s.Signal(syscall.SIGTERM)
			s.Exits(0)
			spans := c.Spans()
			c.CheckClosed(spans)
			children := func(of *traces.Span) (names []string) {
				for _, span := range spans {
					if string(span.ParentSpanId) == string(of.SpanId) {
						names = append(names, span.Name)
					}
				}
				return names
			}
			const route = "/v1/blobs/{account}/{blobName...}"
			var requests []string
			for _, span := range spans {
				if span.Kind != traces.Span_SPAN_KIND_SERVER {
					continue
				}
				requests = append(requests, span.Name+" "+attributeOf(span, "http.response.status_code")+" "+attributeOf(span, "error.type"))
				if attributeOf(span, "http.route") != route {
					t.Errorf("the route of %v", span)
				}
				if id := fmt.Sprintf("trace_id=%x", span.TraceId); !strings.Contains(s.Log.String(), id) {
					t.Errorf("the log lacks %s", id)
				}
				if !strings.HasPrefix(span.Name, "PUT") {
					continue
				}
				if got := children(span); !slices.Contains(got, "metastore.CommitBlob") || !slices.Contains(got, "bytestore.Put") {
					t.Errorf("the PUT's children are %v", got)
				}
				follows := fmt.Sprintf("%x", span.TraceId) == trace && fmt.Sprintf("%x", span.ParentSpanId) == parent
				links := len(span.Links) == 1 && fmt.Sprintf("%x", span.Links[0].TraceId) == trace && fmt.Sprintf("%x", span.Links[0].SpanId) == parent
				if follows != (profile == "local") || links != (profile == "hosted") || profile == "hosted" && len(span.ParentSpanId) > 0 {
					t.Errorf("the span follows the client: %v, links to it: %v: %v", follows, links, span)
				}
			}
			slices.Sort(requests)
			if want := []string{"GET " + route + " 200 ", "GET " + route + " 404 blob_not_found", "PUT " + route + " 204 "}; !slices.Equal(requests, want) {
				t.Errorf("the requests are %q, want %q", requests, want)
			}
			for _, want := range []string{`"blobs"`, `"deployment.environment.name"`, `"service.version"`} {
				if !strings.Contains(c.Text(), want) {
					t.Errorf("the traces lack %s", want)
				}
			}
		})
	}
}

// TestCollectorThatHangs has a trace receiver that accepts connections and never responds. It
// delays neither requests nor the process's end, and the server logs the failure.
// Invariant 140.
func TestCollectorThatHangs(t *testing.T) {
	t.Parallel()
	hanging, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.OK(t, err)
	defer func() {
		if err := hanging.Close(); err != nil {
			t.Error(err)
		}
	}()
	s := e2e.Start(t, e2e.Options{Wrapper: []string{"env", "OTEL_EXPORTER_OTLP_ENDPOINT=http://" + hanging.Addr().String(), "OTEL_BSP_SCHEDULE_DELAY=1", "OTEL_BSP_MAX_QUEUE_SIZE=16", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=4"}})
	for range 200 { // many more than may wait
		s.Must(200, "GET", "/v1/info", nil)
	}
	began := time.Now()
	s.Stop()
	if took := time.Since(began); took > e2e.Patience/2 {
		t.Errorf("the process ended after %v", took)
	}
	s.Logged(`msg="traces are lost"`, `msg="drained: all requests have completed"`)
}
