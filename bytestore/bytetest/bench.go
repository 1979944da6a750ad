package bytetest

import (
	"fmt"
	"io"
	"runtime"
	"testing"

	"sluice/test/testenv"
)

// Bench measures puts and reads of several sizes, by one goroutine and by 16.
func Bench(b *testing.B, newHarness func(testing.TB) Harness) {
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
		for _, goroutines := range []int{1, 16} {
			b.Run(fmt.Sprintf("put/%dKiB/%dgoroutines", size>>10, goroutines), func(b *testing.B) {
				data, p := content(1, size), openFor(b, newHarness(b))
				Parallel(b, goroutines, int64(size), func() error { return p.tryPut(newName(), data) })
			})
			b.Run(fmt.Sprintf("read/%dKiB/%dgoroutines", size>>10, goroutines), func(b *testing.B) {
				p, name := openFor(b, newHarness(b)), newName()
				testenv.OK(b, p.tryPut(name, content(1, size)))
				Parallel(b, goroutines, int64(size), func() error {
					r, err := p.s.Open(p.ctx, name, 0, int64(size))
					if err != nil {
						return err
					}
					if _, err := io.CopyN(io.Discard, r, int64(size)); err != nil {
						return err
					}
					return r.Close()
				})
			})
		}
	}
}

func openFor(b *testing.B, h Harness) *probe {
	return &probe{ctx: b.Context(), h: h, s: testenv.Must(h.Open())(b)}
}

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
