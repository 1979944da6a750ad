package httpapi

import (
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the metrics of requests. No label contains an account, a name or an id.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	bytes    *prometheus.CounterVec
	active   prometheus.Gauge

	in, out prometheus.Counter // of bytes

	// Looking up the metrics by their labels takes longer than to count. The map is replaced when a
	// result is new.
	results atomic.Pointer[map[result]*resultMetrics]
	adding  sync.Mutex
}

// result is the labels of a request. There are few: of each route, its methods and statuses.
type result struct {
	pattern, method string
	status          int
}

type resultMetrics struct {
	requests prometheus.Counter
	duration prometheus.Observer
}

// newMetrics registers the metrics with r, which may be nil.
func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_http_requests_total", Help: "Requests that have ended.",
		}, []string{"route", "method", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_http_request_duration_seconds", Help: "Time from the end of the request headers to the end of the response.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 10),
		}, []string{"route", "method"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_http_bytes_total", Help: "Bytes of bodies.",
		}, []string{"direction"}),
		active: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_http_requests_active", Help: "Requests in progress.",
		}),
	}
	m.results.Store(&map[result]*resultMetrics{})
	m.in, m.out = m.bytes.WithLabelValues("in"), m.bytes.WithLabelValues("out")
	if r != nil {
		r.MustRegister(m.requests, m.duration, m.bytes, m.active)
	}
	return m
}

// observe records a request that has ended. pattern is "" for an unknown route, and in and out are
// the bytes of the bodies.
func (m *metrics) observe(pattern, method string, status int, took time.Duration, in, out int64) {
	if pattern == "" || !knownMethod[method] {
		method = "other" // clients must not create labels
	}
	of := m.of(result{pattern, method, status})
	of.requests.Inc()
	of.duration.Observe(took.Seconds())
	m.in.Add(float64(in))
	m.out.Add(float64(out))
}

// of returns the metrics of a result.
func (m *metrics) of(r result) *resultMetrics {
	if found := (*m.results.Load())[r]; found != nil {
		return found
	}
	m.adding.Lock()
	defer m.adding.Unlock()
	added := &resultMetrics{
		requests: m.requests.WithLabelValues(r.pattern, r.method, strconv.Itoa(r.status)),
		duration: m.duration.WithLabelValues(r.pattern, r.method),
	}
	results := maps.Clone(*m.results.Load())
	results[r] = added
	m.results.Store(&results)
	return added
}

var knownMethod = map[string]bool{"GET": true, "HEAD": true, "PUT": true, "POST": true, "DELETE": true, "OPTIONS": true}
