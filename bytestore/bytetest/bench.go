package bytetest

import (
	"runtime"
	"testing"

	"sluice/test/testenv"
)

// Parallel runs op b.N times in the given number of goroutines, rounded up to a multiple of
// GOMAXPROCS unless it is 1. Each op transfers size bytes.
func Parallel(b *testing.B, goroutines int, size int64, op func() error) {
	b.SetBytes(size)
	b.ReportAllocs()
	if goroutines == 1 {
		for b.Loop() {
			testenv.OK(b, op())
		}
		return
	}
	procs := runtime.GOMAXPROCS(0)
	b.SetParallelism((goroutines + procs - 1) / procs)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := op(); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
