package storage

import (
	"log/slog"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sluice/bytestore/cached"
	"sluice/bytestore/memory"
	"sluice/internal/metrics"
	"sluice/internal/vfs"
	"sluice/test/testenv"
)

// TestEveryCacheStatisticIsAMetric checks that each field of cached.Stats is registered as a metric
// of its name.
func TestEveryCacheStatisticIsAMetric(t *testing.T) {
	cache := testenv.Must(cached.Open(memory.New(), t.TempDir(), cached.Options{Size: cached.MinSize}))(t)
	defer func() { testenv.Check(t, cache.Close()) }()
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

// TestLocalConditionsAndDisk checks the conditions of an instance in a folder, and the metrics of
// its disk.
func TestLocalConditionsAndDisk(t *testing.T) {
	stores := testenv.Must(Open(t.Context(), Location{Data: t.TempDir()}, Options{}))(t)
	defer func() { testenv.Check(t, stores.Close()) }()
	var names []ConditionName
	for _, c := range stores.Conditions {
		names = append(names, c.Name)
		testenv.Is(t, c.Check(t.Context()), nil, "%s", c.Name)
	}
	if want := []ConditionName{BytesWritable, SpaceLeft, MetadataWritable, MayChange}; !slices.Equal(names, want) {
		t.Errorf("the conditions are %v, want %v", names, want)
	}
	now, reserve, err := stores.Disk()
	if err != nil || reserve <= 0 || now.Free <= 0 || now.Free > now.Size || reserve != now.Reserve() {
		t.Errorf("the disk has %+v with a reserve of %d, %v", now, reserve, err)
	}
	set := metrics.NewSet()
	registerDisk(set, func() (vfs.Space, int64, error) {
		return vfs.Space{Size: 100, Free: 40, Inodes: 9, FreeInodes: 8}, 5, nil
	})
	w := httptest.NewRecorder()
	set.Handler(slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{"size_bytes 100", "free_bytes 40", "reserve_bytes 5", "inodes 9", "free_inodes 8"} {
		if !strings.Contains(w.Body.String(), "\nsluice_disk_"+line+"\n") {
			t.Errorf("the metrics lack sluice_disk_%s", line)
		}
	}
}
