package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/metastore"
)

// backlogTime bounds the look at the backlog, so that a database that hangs does
// not keep the other metrics.
const backlogTime = 2 * time.Second

// backlogMetrics measure the garbage when they are asked for. While the database
// does not answer they are missing, which says more than an old value.
type backlogMetrics struct {
	backlog func(context.Context) (metastore.Backlog, error)
}

var (
	garbageContents = prometheus.NewDesc("sluice_garbage_contents",
		"Deleted contents whose bytes are still there after the grace period, at most 100,000.", nil, nil)
	garbageOldest = prometheus.NewDesc("sluice_garbage_oldest_seconds",
		"How long the oldest of these contents is due.", nil, nil)
)

// Describe implements prometheus.Collector.
func (m backlogMetrics) Describe(out chan<- *prometheus.Desc) {
	out <- garbageContents
	out <- garbageOldest
}

// Collect implements prometheus.Collector.
func (m backlogMetrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), backlogTime)
	defer cancel()
	b, err := m.backlog(ctx)
	if err != nil {
		return
	}
	out <- prometheus.MustNewConstMetric(garbageContents, prometheus.GaugeValue, float64(b.Contents))
	out <- prometheus.MustNewConstMetric(garbageOldest, prometheus.GaugeValue, b.Oldest.Seconds())
}
