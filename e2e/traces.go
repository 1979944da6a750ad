package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// TraceCollector is an OTLP receiver that keeps all spans.
type TraceCollector struct {
	t   testing.TB
	url string

	mu       sync.Mutex
	received []*traces.ResourceSpans
}

// NewTraceCollector starts a receiver.
func NewTraceCollector(t testing.TB) *TraceCollector {
	c := &TraceCollector{t: t}
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	c.url = s.URL
	return c
}

// ServeHTTP implements the protocol OTLP/HTTP.
func (c *TraceCollector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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

// Environment returns a wrapper that starts a server and has it send its traces to the receiver.
func (c *TraceCollector) Environment(more ...string) []string {
	return slices.Concat([]string{"env", "OTEL_EXPORTER_OTLP_ENDPOINT=" + c.url, "OTEL_BSP_SCHEDULE_DELAY=600000"}, more)
}

// Spans returns the spans received.
func (c *TraceCollector) Spans() (all []*traces.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.received {
		for _, scope := range one.ScopeSpans {
			all = append(all, scope.Spans...)
		}
	}
	return all
}

// Text returns everything received.
func (c *TraceCollector) Text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, one := range c.received {
		b.WriteString(prototext.Format(one))
	}
	return b.String()
}

// CheckClosed fails the test if a span has anything that is not in the closed lists.
func (c *TraceCollector) CheckClosed(spans []*traces.Span) {
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
