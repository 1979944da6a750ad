package blob_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"sluice/blob"
	"sluice/bytestore/localfs"
	"sluice/database/sqlstore"
	"sluice/test/testenv"
)

// newDurable returns a Service over a server's stores, on the file system.
func newDurable(b *testing.B, opt blob.Options) (*blob.Service, *sqlstore.Store) {
	b.Helper()
	dir := testenv.MemoryDir(b)
	files := testenv.Must(localfs.Open(filepath.Join(dir, "bytes"), localfs.Options{}))(b)
	meta := testenv.Must(sqlstore.OpenSQLite(filepath.Join(dir, "meta.db"), sqlstore.Options{}))(b)
	b.Cleanup(func() {
		testenv.Check(b, meta.Close())
		testenv.Check(b, files.Close())
	})
	return blob.New(meta, files, opt), meta
}

// BenchmarkPut stores each size inline and as an object, to find the size from which an object is
// cheaper than a larger row.
func BenchmarkPut(b *testing.B) {
	for _, kib := range []int{1, 4, 8, 16, 32, 64, 128} {
		for _, inline := range []bool{true, false} {
			for _, writers := range []int{1, 32} {
				kind := "object"
				limit := int64(-1)
				if inline {
					kind, limit = "inline", 1<<20
				}
				b.Run(fmt.Sprintf("%dKiB/%s/writers=%d", kib, kind, writers), func(b *testing.B) {
					s, _ := newDurable(b, blob.Options{InlineSize: limit})
					body := randomBytes(1, kib<<10)
					b.SetBytes(int64(len(body)))
					var n atomic.Int64
					b.SetParallelism(max(1, writers/2)) // times GOMAXPROCS, which was 2 for the published figures
					b.RunParallel(func(pb *testing.PB) {
						for pb.Next() {
							name := strconv.FormatInt(n.Add(1), 10)
							_, err := s.Put(context.Background(), to(name), bytes.NewReader(body), int64(len(body)))
							testenv.Check(b, err)
						}
					})
				})
			}
		}
	}
}

// BenchmarkRead reads whole blobs, with a check of every block.
func BenchmarkRead(b *testing.B) {
	ctx := context.Background()
	for _, kib := range []int{4, 1 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("%dKiB", kib), func(b *testing.B) {
			s, _ := newDurable(b, blob.Options{})
			body := randomBytes(1, kib<<10)
			testenv.Must(s.Put(ctx, to("n"), bytes.NewReader(body), int64(len(body))))(b)
			b.SetBytes(int64(len(body)))
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					c, err := s.Open(ctx, "a", "n")
					if err != nil {
						b.Error(err)
						return
					}
					testenv.Check(b, testenv.Error(c.WriteRange(ctx, io.Discard, 0, c.Size)))
					c.Close()
				}
			})
		})
	}
}
