package connlimit

import "github.com/prometheus/client_golang/prometheus"

// Register registers the counts as metrics.
func (l *Limiter) Register(r prometheus.Registerer) {
	gauge := func(name, help string, value func(Counts) float64) {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(l.Counts()) }))
	}
	counter := func(name, help string, value func(Counts) int64) {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(value(l.Counts())) }))
	}
	gauge("sluice_connections_open", "Open connections.", func(n Counts) float64 { return float64(n.Open) })
	counter("sluice_connections_refused_total", "Connections refused because of the total limit.", func(n Counts) int64 { return n.Refused })
	counter("sluice_connections_crowded_total", "Connections refused because of the limit of their address.", func(n Counts) int64 { return n.Crowded })
	counter("sluice_connections_evicted_total", "Idle connections closed in favor of new ones.", func(n Counts) int64 { return n.Evicted })
	counter("sluice_connections_failed_total", "Attempts to accept a connection that failed.", func(n Counts) int64 { return n.Failed })
}
