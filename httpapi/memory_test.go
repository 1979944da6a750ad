package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"sluice/internal/tracing"
	"sluice/test/testenv"
)

// longLine is the length of queries that must not remain in memory.
const longLine = 28_000

// ask sends a request with a long query to the handler, as the HTTP server has parsed it: its
// method, its path and its query are parts of one line.
func (s *service) ask(method, path string) int {
	line := fmt.Sprintf("%s %s?%s HTTP/1.1", method, path, strings.Repeat("q", longLine))
	target := line[len(method)+1 : len(line)-len(" HTTP/1.1")]
	r := httptest.NewRequestWithContext(context.Background(), "GET", target, nil)
	r.Method, r.RequestURI, r.Host = line[:len(method)], target, "localhost:1"
	r.URL.Path, r.URL.RawQuery = target[:len(path)], target[len(path)+1:]
	w := &discarded{header: http.Header{}}
	s.ServeHTTP(w, r)
	return w.status
}

// TestResultsKeepNoRequests checks that a result's metrics do not keep the first request that had
// it.
// Invariant 71.
func TestResultsKeepNoRequests(t *testing.T) {
	s := newService(t, nil)
	s.ask("GET", "/v1/other")
	before := testenv.Heap()
	results := 0
	for _, path := range []string{"/v1/info", "/v1/blobs/account/none", "/v1/blobs/account", "/v1/sessions", "/v1/channels/none", "/v1/uploads/none", "/v1/figures"} {
		for _, method := range []string{"GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS"} {
			s.ask(method, path)
			results++
		}
	}
	if grown := testenv.Heap() - before; grown > int64(results)*longLine/4 {
		t.Errorf("%d results have left %d bytes in memory", results, grown)
	}
}

// TestSpansKeepNoRequests checks that a span does not keep its request until it is exported.
// Invariant 71.
func TestSpansKeepNoRequests(t *testing.T) {
	var exports atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		exports.Add(1)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(collector.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "600000") // milliseconds
	tracer, err := tracing.Open(t.Context(), tracing.Options{Log: slog.New(slog.DiscardHandler)})
	testenv.OK(t, err)
	s := newService(t, func(c *Config) { c.Tracer = tracer })
	s.ask("GET", "/v1/info")
	before := testenv.Heap()
	const requests = 200 // fewer than are exported without waiting for the delay
	for range requests {
		s.ask("GET", "/v1/info")
	}
	if grown := testenv.Heap() - before; grown > requests*longLine/4 || exports.Load() > 0 {
		t.Errorf("the spans of %d requests have left %d bytes in memory, after %d exports", requests, grown, exports.Load())
	}
	if err := tracer.Close(t.Context()); err != nil || exports.Load() == 0 {
		t.Errorf("%d exports at the end, %v", exports.Load(), err)
	}
}
