package cached_test

import (
	"fmt"
	"io"
	"sync"
	"testing"

	"sluice/bytestore"
	"sluice/bytestore/bytetest"
	"sluice/bytestore/cached"
	"sluice/bytestore/localfs"
	"sluice/test/testenv"
)

// BenchmarkRead compares cache hits with reads from the underlying store, a folder on the same
// disk, through a buffer of 1 MiB as package blob uses it. It also measures a miss's additional
// cost.
func BenchmarkRead(b *testing.B) {
	inner := testenv.Must(localfs.Open(testenv.MemoryDir(b), localfs.Options{}))(b)
	s := mustOpen(b, inner, testenv.MemoryDir(b), cached.Options{})
	for _, size := range []int{4 << 10, mib, 16 * mib} {
		object, _ := put(b, inner, 1, size)
		for _, bench := range []struct {
			name  string
			store bytestore.Store
			miss  bool
		}{{"inner", inner, false}, {"hit", s, false}, {"miss", s, true}} {
			for _, goroutines := range []int{1, 16} {
				if bench.miss && goroutines > 1 {
					continue // they would share
				}
				b.Run(fmt.Sprintf("%dKiB/%dgoroutines/%s", size>>10, goroutines, bench.name), func(b *testing.B) {
					bytetest.Parallel(b, goroutines, int64(size), func() error {
						if bench.miss {
							s.Invalidate(object)
						}
						return drain(b, bench.store, object, size)
					})
				})
			}
		}
	}
}

// BenchmarkSmallRange reads 4 KiB within a cached block of 1 MiB.
func BenchmarkSmallRange(b *testing.B) {
	inner := testenv.Must(localfs.Open(testenv.MemoryDir(b), localfs.Options{}))(b)
	s := mustOpen(b, inner, testenv.MemoryDir(b), cached.Options{})
	object, data := put(b, inner, 1, mib)
	wantRead(b, s, object, data, 0, mib)
	for _, bench := range []struct {
		name  string
		store bytestore.Store
	}{{"inner", inner}, {"hit", s}} {
		b.Run(bench.name, func(b *testing.B) {
			bytetest.Parallel(b, 1, 4<<10, func() error {
				_, err := read(b.Context(), bench.store, object, 500_000, 4<<10)
				return err
			})
		})
	}
}

var buffers = sync.Pool{New: func() any { return new([mib]byte) }}

// drain reads an object through a buffer that outlives the call, as package blob does.
func drain(b *testing.B, s bytestore.Store, name bytestore.Name, size int) error {
	r, err := s.Open(b.Context(), name, 0, int64(size))
	if err != nil {
		return err
	}
	buf := buffers.Get().(*[mib]byte)
	defer buffers.Put(buf)
	for left := size; left > 0; left -= mib {
		if _, err := io.ReadFull(r, buf[:min(left, mib)]); err != nil {
			return err
		}
	}
	return r.Close()
}
