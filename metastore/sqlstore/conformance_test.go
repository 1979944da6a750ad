package sqlstore

import (
	"testing"

	"sluice/metastore/metatest"
)

// newHarness gives a harness over a database in a folder of its own.
func newHarness(tb testing.TB) *metatest.Harness {
	path := databasePath(tb)
	clock := metatest.NewClock()
	return metatest.NewHarness(clock, func() (metatest.Handle, error) {
		return OpenSQLite(path, Options{Now: clock.Now})
	})
}

func TestConformance(t *testing.T) { metatest.Run(t, newHarness) }

func BenchmarkSQLite(b *testing.B) { metatest.Bench(b, newHarness) }
