package localfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"sluice/bytestore"
	"sluice/bytestore/bytetest"
	"sluice/bytestore/localfs"
	"sluice/test/testenv"
)

// BenchmarkPut compares a Put with the minimum cost of durability: writing and syncing one file.
func BenchmarkPut(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20, 64 << 20} {
		data := make([]byte, size)
		for _, goroutines := range []int{1, 16} {
			name := fmt.Sprintf("%dKiB/%dgoroutines/", size>>10, goroutines)
			b.Run(name+"bare", func(b *testing.B) {
				dir := testenv.MemoryDir(b)
				var n atomic.Int64
				bytetest.Parallel(b, goroutines, int64(size), func() error {
					name := filepath.Join(dir, fmt.Sprint(n.Add(1)))
					return errors.Join(writeAndSync(name, data), os.Remove(name))
				})
			})
			b.Run(name+"localfs", func(b *testing.B) {
				s := testenv.Must(localfs.Open(testenv.MemoryDir(b), localfs.Options{}))(b)
				bytetest.Parallel(b, goroutines, int64(size), func() error {
					object := newName()
					return errors.Join(putBench(b, s, object, data), s.Delete(b.Context(), object))
				})
			})
		}
	}
}

func writeAndSync(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

func putBench(b *testing.B, s *localfs.Store, name bytestore.Name, data []byte) error {
	return s.Put(b.Context(), name, bytes.NewReader(data), int64(len(data)))
}
