package node

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/metastore"
)

// backlogTimeout keeps a database that hangs from delaying the other metrics.
const backlogTimeout = 2 * time.Second

// backlogMetrics query the garbage when they are collected. They are absent while
// the database does not respond.
type backlogMetrics struct {
	backlog func(context.Context) (metastore.Backlog, error)
}

var (
	garbageContents = prometheus.NewDesc("sluice_garbage_contents",
		"Deleted contents whose grace period has passed and whose bytes are not freed yet, at most 100,000.", nil, nil)
	garbageOldest = prometheus.NewDesc("sluice_garbage_oldest_seconds",
		"Time since the grace period of the oldest of these contents passed.", nil, nil)
)

// Describe implements prometheus.Collector.
func (m backlogMetrics) Describe(out chan<- *prometheus.Desc) {
	out <- garbageContents
	out <- garbageOldest
}

// Collect implements prometheus.Collector.
func (m backlogMetrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), backlogTimeout)
	defer cancel()
	b, err := m.backlog(ctx)
	if err != nil {
		return
	}
	out <- prometheus.MustNewConstMetric(garbageContents, prometheus.GaugeValue, float64(b.Contents))
	out <- prometheus.MustNewConstMetric(garbageOldest, prometheus.GaugeValue, b.Oldest.Seconds())
}
