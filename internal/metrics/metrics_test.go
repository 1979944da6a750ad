package metrics_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/histogram"
	"sluice/internal/metrics"
)

// scrape returns the lines for the metrics that begin with x_, with their comments.
func scrape(t *testing.T, set *metrics.Set) string {
	t.Helper()
	w := httptest.NewRecorder()
	set.Handler(slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	var lines []string
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "x_") || strings.Contains(line, " x_") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// TestValues registers a metric of each kind.
func TestValues(t *testing.T) {
	set := metrics.NewSet()
	h := histogram.New(1, 10, 2)
	h.Observe(5)
	set.Gauge("x_a", "A.", func() float64 { return 1.5 })
	set.Gauge("x_absent", "Absent.", func() float64 { return math.NaN() })
	set.Counters("x_b_total", "B.", "kind", []string{"one", "two"}, func(kind string) int64 { return int64(len(kind)) })
	set.Constant("x_c", "C.", map[string]string{"version": "v1"})
	set.Histogram("x_d", "D.", h)
	want := `# HELP x_a A.
# TYPE x_a gauge
x_a 1.5
# HELP x_b_total B.
# TYPE x_b_total counter
x_b_total{kind="one"} 3
x_b_total{kind="two"} 3
# HELP x_c C.
# TYPE x_c gauge
x_c{version="v1"} 1
# HELP x_d D.
# TYPE x_d histogram
x_d_bucket{le="1"} 0
x_d_bucket{le="10"} 1
x_d_bucket{le="+Inf"} 1
x_d_sum 5
x_d_count 1
`
	if got := scrape(t, set); got != want {
		t.Errorf("the metrics are\n%s\nwant\n%s", got, want)
	}
	described := set.Metrics()[2]
	if want := (metrics.Metric{Name: "x_b_total", Help: "B.", Type: metrics.TypeCounter, Label: "kind", Values: []string{"one", "two"}}); !reflect.DeepEqual(described, want) {
		t.Errorf("described as %+v, want %+v", described, want)
	}
}

// TestSample checks that a query's figures are absent when it fails, and that a query that hangs
// neither delays a scrape for more than two seconds nor runs twice at a time.
// Invariant 137.
func TestSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := metrics.NewSet()
		var failure error
		hang := make(chan struct{})
		close(hang)
		running := 0
		metrics.Sample(set, func(ctx context.Context) (float64, error) {
			if running++; running > 1 {
				t.Error("two queries run concurrently")
			}
			defer func() { running-- }()
			if _, bounded := ctx.Deadline(); !bounded {
				t.Error("the query has no deadline")
			}
			<-hang // even after the deadline
			return 7, failure
		}, metrics.GaugeOf("x_a", "A.", func(v float64) float64 { return v }),
			metrics.CountersOf("x_b_total", "B.", "kind", []string{"one"}, func(v float64, kind string) float64 { return v + float64(len(kind)) }))
		set.Gauge("x_other", "Other.", func() float64 { return 1 })

		present := func(want bool) {
			t.Helper()
			began := time.Now()
			got := scrape(t, set)
			if strings.Contains(got, "x_a 7\n") != want || strings.Contains(got, `x_b_total{kind="one"} 10`) != want || !strings.Contains(got, "x_other 1\n") {
				t.Errorf("the metrics are\n%s", got)
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("the scrape took %v", took)
			}
		}
		present(true)
		failure = errors.New("the database is unavailable")
		present(false)
		failure = nil
		hang = make(chan struct{})
		present(false)
		present(false) // the same query
		close(hang)
		synctest.Wait()
		present(true)
	})
}

// TestRefused checks that only known codes are counted.
// Invariant 137.
func TestRefused(t *testing.T) {
	set := metrics.NewSet()
	requests := metrics.NewRequests(set, []string{"full"})
	requests.Refused("full")
	requests.Refused("made up")
	w := httptest.NewRecorder()
	set.Handler(slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if body := w.Body.String(); !strings.Contains(body, `sluice_http_refusals_total{code="full"} 1`) || strings.Contains(body, "made up") {
		t.Errorf("the metrics are\n%s", body)
	}
}
