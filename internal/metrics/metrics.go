// Package metrics exports figures in the format of Prometheus. It is the only package that imports
// the client of Prometheus: other packages count in plain structs, which are read when the metrics
// are collected.
//
// Names and units follow https://prometheus.io/docs/practices/naming/. Each label's values are
// listed when a metric is registered, except by Requests, so that no request can create time series
// without bound.
package metrics

import (
	"cmp"
	"log/slog"
	"math"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sluice/internal/histogram"
)

// Set is a set of metrics. Metrics are registered before the first scrape, by one goroutine.
// Registering a name twice panics.
//
// A function that is registered returns a metric's present value, or NaN if there is none, and then
// the metric is absent. It must be fast and safe for concurrent use; see Sample for queries.
type Set struct {
	registry *prometheus.Registry
	list     []Metric
}

// NewSet returns a Set with the metrics for the process and the Go runtime.
func NewSet() *Set {
	s := &Set{registry: prometheus.NewRegistry()}
	s.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(),
	)
	return s
}

// Handler serves the metrics. If some cannot be collected, it serves the rest and logs the error.
func (s *Set) Handler(log *slog.Logger) http.Handler {
	return promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{
		ErrorLog:      slog.NewLogLogger(log.Handler(), slog.LevelError),
		ErrorHandling: promhttp.ContinueOnError,
	})
}

// Metrics returns the metrics sorted by name, without the metrics for the process and the runtime.
func (s *Set) Metrics() []Metric {
	list := slices.Clone(s.list)
	slices.SortFunc(list, func(a, b Metric) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// Metric describes a metric.
type Metric struct {
	Name   string
	Help   string
	Type   Type
	Label  string   // "": none
	Values []string // of the label
}

// Type is a metric's type.
type Type string

// The types of metrics.
const (
	TypeGauge     Type = "gauge"
	TypeCounter   Type = "counter"
	TypeHistogram Type = "histogram"
)

var valueTypes = map[Type]prometheus.ValueType{TypeGauge: prometheus.GaugeValue, TypeCounter: prometheus.CounterValue}

// Gauge registers a gauge.
func (s *Set) Gauge(name, help string, read func() float64) {
	s.register(Metric{Name: name, Help: help, Type: TypeGauge}, func(string) float64 { return read() })
}

// Counter registers a counter.
func (s *Set) Counter(name, help string, read func() int64) {
	s.register(Metric{Name: name, Help: help, Type: TypeCounter}, func(string) float64 { return float64(read()) })
}

// Gauges registers a gauge for each label value.
func (s *Set) Gauges(name, help, label string, values []string, read func(value string) float64) {
	s.register(Metric{name, help, TypeGauge, label, values}, read)
}

// Counters registers a counter for each label value.
func (s *Set) Counters(name, help, label string, values []string, read func(value string) int64) {
	s.register(Metric{name, help, TypeCounter, label, values}, func(value string) float64 { return float64(read(value)) })
}

// Constant registers a gauge of 1 with labels that describe the process.
func (s *Set) Constant(name, help string, labels map[string]string) {
	s.add(Metric{Name: name, Help: help, Type: TypeGauge},
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 { return 1 }))
}

// Histogram registers a histogram.
func (s *Set) Histogram(name, help string, h *histogram.Histogram) {
	s.histograms(Metric{Name: name, Help: help, Type: TypeHistogram}, func(string) *histogram.Histogram { return h })
}

// Histograms registers a histogram for each label value.
func (s *Set) Histograms(name, help, label string, values []string, of func(value string) *histogram.Histogram) {
	s.histograms(Metric{name, help, TypeHistogram, label, values}, of)
}

func (s *Set) register(m Metric, read func(value string) float64) {
	desc := m.desc()
	s.add(m, collector{[]*prometheus.Desc{desc}, func(out chan<- prometheus.Metric) { m.collect(out, desc, read) }})
}

func (s *Set) histograms(m Metric, of func(value string) *histogram.Histogram) {
	desc := m.desc()
	s.add(m, collector{[]*prometheus.Desc{desc}, func(out chan<- prometheus.Metric) {
		m.each(func(value string, labels ...string) {
			c := of(value).Counts()
			within := make(map[float64]uint64, len(c.Bounds))
			for i, bound := range c.Bounds {
				within[bound] = c.Within[i]
			}
			out <- prometheus.MustNewConstHistogram(desc, c.Count, c.Sum, within, labels...)
		})
	}})
}

func (m Metric) collect(out chan<- prometheus.Metric, desc *prometheus.Desc, read func(value string) float64) {
	m.each(func(value string, labels ...string) {
		if v := read(value); !math.IsNaN(v) {
			out <- prometheus.MustNewConstMetric(desc, valueTypes[m.Type], v, labels...)
		}
	})
}

func (s *Set) add(m Metric, c prometheus.Collector) {
	s.registry.MustRegister(c)
	s.list = append(s.list, m)
}

func (m Metric) desc() *prometheus.Desc {
	var labels []string
	if m.Label != "" {
		labels = []string{m.Label}
	}
	return prometheus.NewDesc(m.Name, m.Help, labels, nil)
}

// each calls fn for each label value, or once if there is no label.
func (m Metric) each(fn func(value string, labels ...string)) {
	if m.Label == "" {
		fn("")
	}
	for _, value := range m.Values {
		fn(value, value)
	}
}

// collector is a prometheus.Collector made from a function.
type collector struct {
	descs   []*prometheus.Desc
	collect func(chan<- prometheus.Metric)
}

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) { c.collect(out) }
