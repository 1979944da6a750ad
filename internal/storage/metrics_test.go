package storage

import (
	"reflect"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/bytestore/cached"
	"sluice/bytestore/memory"
)

// TestEveryCacheStatisticIsAMetric checks that each field of cached.Stats is registered as a metric
// of its name.
func TestEveryCacheStatisticIsAMetric(t *testing.T) {
	cache, err := cached.Open(memory.New(), t.TempDir(), cached.Options{Size: cached.MinSize})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cache.Close(); err != nil {
			t.Error(err)
		}
	}()
	registry := prometheus.NewRegistry()
	(&Stores{cache: cache}).RegisterMetrics(registry)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	metrics := map[string]bool{}
	for _, f := range families {
		metrics[strings.TrimSuffix(f.GetName(), "_total")] = true
	}
	stats := reflect.TypeFor[cached.Stats]()
	for i := range stats.NumField() {
		name := "sluice_cache_" + strings.ToLower(stats.Field(i).Name)
		if !metrics[name] {
			t.Errorf("%s is not a metric", name)
		}
		delete(metrics, name)
	}
	if len(metrics) > 0 {
		t.Errorf("additional metrics: %v", metrics)
	}
}
