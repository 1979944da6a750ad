package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// traceCollector is an OTLP receiver that keeps what it receives.
type traceCollector struct {
	t   testing.TB
	url string

	mu       sync.Mutex
	received []*traces.ResourceSpans
}

func newTraceCollector(t testing.TB) *traceCollector {
	c := &traceCollector{t: t}
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	c.url = s.URL
	return c
}

// ServeHTTP implements the protocol OTLP/HTTP.
func (c *traceCollector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Error(err)
	}
	var export collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &export); err != nil || r.Method != "POST" || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		c.t.Errorf("%s %s with %q: %v", r.Method, r.URL, r.Header, err)
	}
	c.mu.Lock()
	c.received = append(c.received, export.ResourceSpans...)
	c.mu.Unlock()
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// environment returns a wrapper that starts a server and has it send its traces to the receiver.
func (c *traceCollector) environment(more ...string) []string {
	return slices.Concat([]string{"env", "OTEL_EXPORTER_OTLP_ENDPOINT=" + c.url, "OTEL_BSP_SCHEDULE_DELAY=600000"}, more)
}

// spans returns the spans received.
func (c *traceCollector) spans() (all []*traces.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.received {
		for _, scope := range one.ScopeSpans {
			all = append(all, scope.Spans...)
		}
	}
	return all
}

// text returns everything received.
func (c *traceCollector) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, one := range c.received {
		b.WriteString(prototext.Format(one))
	}
	return b.String()
}

// checkClosed fails the test if a span has anything that is not in the closed lists.
func (c *traceCollector) checkClosed(spans []*traces.Span) {
	c.t.Helper()
	attributes := []string{"http.request.method", "http.route", "http.response.status_code", "http.request.body.size", "http.response.body.size", "error.type"}
	for _, span := range spans {
		for _, a := range span.Attributes {
			if !slices.Contains(attributes, a.Key) {
				c.t.Errorf("the span %q has the attribute %v", span.Name, a)
			}
		}
		if len(span.Events) > 0 || span.TraceState != "" || span.GetStatus().GetMessage() != "" {
			c.t.Errorf("the span has more than attributes: %v", span)
		}
		for _, link := range span.Links {
			if len(link.Attributes) > 0 || link.TraceState != "" {
				c.t.Errorf("the link of %q is %v", span.Name, link)
			}
		}
	}
}

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
func TestTraces(t *testing.T) {
	t.Parallel()
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for _, profile := range []string{"local", "hosted"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			c := newTraceCollector(t)
			o := options{wrapper: c.environment("OTEL_SERVICE_NAME=blobs", "OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test")}
			if profile == "hosted" {
				o.flags = append(hostedChoices("public"), "--admin-addr", "off", "--drain-wait", "0s")
			}
			s := start(t, o)
			at := s
			if profile == "hosted" {
				at = s.asAdmin()
			}
			at.must(204, "PUT", blobTarget("0x1", "name"), content(1, 100_000), "Traceparent", "00-"+trace+"-"+parent+"-01", "Tracestate", "vendor=canary")
			at.must(200, "GET", blobTarget("0x1", "name"), nil)
			at.must(404, "GET", blobTarget("0x1", "none"), nil)
			s.signal(syscall.SIGTERM)
			if code := s.wait(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			spans := c.spans()
			c.checkClosed(spans)
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
				if id := fmt.Sprintf("trace_id=%x", span.TraceId); !strings.Contains(s.log.String(), id) {
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
				if !strings.Contains(c.text(), want) {
					t.Errorf("the traces lack %s", want)
				}
			}
		})
	}
}

// TestCollectorThatHangs has a trace receiver that accepts connections and never responds. It
// delays neither requests nor the process's end, and the server logs the failure.
func TestCollectorThatHangs(t *testing.T) {
	t.Parallel()
	hanging, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := hanging.Close(); err != nil {
			t.Error(err)
		}
	}()
	s := start(t, options{wrapper: []string{"env", "OTEL_EXPORTER_OTLP_ENDPOINT=http://" + hanging.Addr().String(), "OTEL_BSP_SCHEDULE_DELAY=1", "OTEL_BSP_MAX_QUEUE_SIZE=16", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=4"}})
	for range 200 { // many more than may wait
		s.must(200, "GET", "/v1/info", nil)
	}
	began := time.Now()
	s.stop()
	if took := time.Since(began); took > patience/2 {
		t.Errorf("the process ended after %v", took)
	}
	s.logged(`msg="traces are lost"`, `msg="drained: all requests have completed"`)
}

// TestServerTimingHasEachPart checks that a local instance measures both of its stores.
func TestServerTimingHasEachPart(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	r := s.must(204, "PUT", blobTarget("0x1", "name"), content(1, 100_000))
	timing := r.header.Get("Server-Timing")
	if timing == "" || strings.Contains(timing, "dur=0.000") {
		t.Errorf("Server-Timing is %q", timing)
	}
	r = s.must(200, "GET", blobTarget("0x1", "name"), nil)
	if timing = r.header.Get("Server-Timing"); timing == "" || strings.Contains(timing, "store;dur=0.000") {
		t.Errorf("Server-Timing is %q", timing)
	}
}
