package httpapi

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what an operator sees of the requests. No label tells of an
// account, a name or an id.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	bytes    *prometheus.CounterVec
	active   prometheus.Gauge
}

// newMetrics registers the metrics with r, which may be nil.
func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_http_requests_total", Help: "Requests that were answered or cut.",
		}, []string{"route", "method", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_http_request_duration_seconds", Help: "From the end of a request's headers to the end of the reply.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 10),
		}, []string{"route", "method"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_http_bytes_total", Help: "Bytes of bodies.",
		}, []string{"direction"}),
		active: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_http_requests_active", Help: "Requests at work.",
		}),
	}
	if r != nil {
		r.MustRegister(m.requests, m.duration, m.bytes, m.active)
	}
	return m
}

// note counts an exchange that has ended.
func (m *metrics) note(x *exchange) {
	method := x.r.Method
	if x.pattern == "" || !knownMethod[method] {
		method = "other" // clients must not make up labels
	}
	m.requests.WithLabelValues(x.pattern, method, strconv.Itoa(x.status)).Inc()
	m.duration.WithLabelValues(x.pattern, method).Observe(time.Since(x.began).Seconds())
	m.bytes.WithLabelValues("in").Add(float64(x.body.total))
	m.bytes.WithLabelValues("out").Add(float64(x.out.written))
}

var knownMethod = map[string]bool{"GET": true, "HEAD": true, "PUT": true, "POST": true, "DELETE": true, "OPTIONS": true}

// Register makes the counts of the connections metrics.
func (c *Connections) Register(r prometheus.Registerer) {
	gauge := func(name, help string, value func(ConnectionCounts) float64) {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(c.Counts()) }))
	}
	counter := func(name, help string, value func(ConnectionCounts) int64) {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(value(c.Counts())) }))
	}
	gauge("sluice_connections_open", "Connections that are served.", func(n ConnectionCounts) float64 { return float64(n.Open) })
	counter("sluice_connections_refused_total", "Connections beyond the cap.", func(n ConnectionCounts) int64 { return n.Refused })
	counter("sluice_connections_crowded_total", "Connections beyond the cap of their address.", func(n ConnectionCounts) int64 { return n.Crowded })
	counter("sluice_connections_evicted_total", "Quiet connections that were closed for new ones.", func(n ConnectionCounts) int64 { return n.Evicted })
	counter("sluice_connections_failed_total", "Attempts to accept a connection that failed.", func(n ConnectionCounts) int64 { return n.Failed })
}
