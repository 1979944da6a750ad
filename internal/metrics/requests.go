package metrics

import (
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Requests are the metrics of HTTP requests. No label contains an account, a name or an id: the
// caller of Observe passes patterns of routes and known methods only. Its methods may be called
// concurrently.
type Requests struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	refusals map[string]prometheus.Counter // by code

	active  prometheus.Gauge
	in, out prometheus.Counter // of bytes

	// Looking up the metrics by their labels takes longer than to count. The map is replaced when a
	// result is new.
	results atomic.Pointer[map[result]*resultMetrics]
	adding  sync.Mutex
}

// result is a request's labels. There are few: of each route, its methods and statuses.
type result struct {
	pattern, method string
	status          int
}

type resultMetrics struct {
	requests prometheus.Counter
	duration prometheus.Observer
}

// NewRequests registers the metrics with s, unless s is nil. codes are the codes that Refused may
// be called with.
func NewRequests(s *Set, codes []string) *Requests {
	requests := Metric{Name: "sluice_http_requests_total", Help: "Requests that have ended, by route, method and status.", Type: TypeCounter}
	duration := Metric{Name: "sluice_http_request_duration_seconds", Help: "Time from the end of the request headers to the end of the response, by route and method.", Type: TypeHistogram}
	bytes := Metric{Name: "sluice_http_bytes_total", Help: "Bytes of bodies.", Type: TypeCounter, Label: "direction", Values: []string{"in", "out"}}
	active := Metric{Name: "sluice_http_requests_active", Help: "Requests in progress, without those that wait for changes.", Type: TypeGauge}
	refusals := Metric{Name: "sluice_http_refusals_total", Help: "Error responses, by the code in their body.", Type: TypeCounter, Label: "code", Values: codes}

	byDirection := prometheus.NewCounterVec(prometheus.CounterOpts{Name: bytes.Name, Help: bytes.Help}, []string{bytes.Label})
	byCode := prometheus.NewCounterVec(prometheus.CounterOpts{Name: refusals.Name, Help: refusals.Help}, []string{refusals.Label})
	r := &Requests{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: requests.Name, Help: requests.Help}, []string{"route", "method", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: duration.Name, Help: duration.Help, Buckets: prometheus.ExponentialBuckets(0.0005, 4, 10),
		}, []string{"route", "method"}),
		refusals: make(map[string]prometheus.Counter, len(codes)),
		active:   prometheus.NewGauge(prometheus.GaugeOpts{Name: active.Name, Help: active.Help}),
		in:       byDirection.WithLabelValues("in"),
		out:      byDirection.WithLabelValues("out"),
	}
	for _, code := range codes {
		r.refusals[code] = byCode.WithLabelValues(code)
	}
	r.results.Store(&map[result]*resultMetrics{})
	if s != nil {
		s.add(requests, r.requests)
		s.add(duration, r.duration)
		s.add(bytes, byDirection)
		s.add(active, r.active)
		s.add(refusals, byCode)
	}
	return r
}

// Begin counts a request that begins. Observe must be called when it has ended.
func (r *Requests) Begin() { r.active.Inc() }

// Rest notes that a request waits for something else than its work, until the next Begin.
func (r *Requests) Rest() { r.active.Dec() }

// Observe records a request that has ended. pattern is "" for an unknown route, and in and out are
// the bodies' bytes.
func (r *Requests) Observe(pattern, method string, status int, took time.Duration, in, out int64) {
	of := r.of(result{pattern, method, status})
	of.requests.Inc()
	of.duration.Observe(took.Seconds())
	r.in.Add(float64(in))
	r.out.Add(float64(out))
	r.active.Dec()
}

// Refused counts an error response. A code that NewRequests does not know is not counted.
func (r *Requests) Refused(code string) {
	if counter, known := r.refusals[code]; known {
		counter.Inc()
	}
}

func (r *Requests) of(key result) *resultMetrics {
	if found := (*r.results.Load())[key]; found != nil {
		return found
	}
	r.adding.Lock()
	defer r.adding.Unlock()
	added := &resultMetrics{
		requests: r.requests.WithLabelValues(key.pattern, key.method, strconv.Itoa(key.status)),
		duration: r.duration.WithLabelValues(key.pattern, key.method),
	}
	results := maps.Clone(*r.results.Load())
	results[key] = added
	r.results.Store(&results)
	return added
}
