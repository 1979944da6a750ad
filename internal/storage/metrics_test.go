package storage

import (
	"reflect"
	"strings"
	"testing"

	"sluice/bytestore/cached"
	"sluice/bytestore/memory"
	"sluice/internal/metrics"
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
	set := metrics.NewSet()
	registerCache(set, cache)
	names := map[string]bool{}
	for _, m := range set.Metrics() {
		names[strings.TrimSuffix(m.Name, "_total")] = true
	}
	stats := reflect.TypeFor[cached.Stats]()
	for i := range stats.NumField() {
		name := "sluice_cache_" + strings.ToLower(stats.Field(i).Name)
		if !names[name] {
			t.Errorf("%s is not a metric", name)
		}
		delete(names, name)
	}
	if len(names) > 0 {
		t.Errorf("additional metrics: %v", names)
	}
}
