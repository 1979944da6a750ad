package blob_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/localfs"
	"sluice/bytestore/memory"
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

// BenchmarkComplete completes uploads of 10,000 parts, and sends every fifth part twice.
func BenchmarkComplete(b *testing.B) {
	ctx := context.Background()
	s, _ := newDurable(b, blob.Options{})
	const parts = 10_000
	for b.Loop() {
		b.StopTimer()
		u := testenv.Must(s.Begin(ctx, blob.BeginOptions{Account: "a", Name: "n", PartSize: 16}))(b)
		body := randomBytes(1, 16)
		var next atomic.Int64
		errs := make(chan error, 64)
		for range cap(errs) {
			go func() {
				for {
					i := next.Add(1) - 1
					if i >= parts*6/5 {
						errs <- nil
						return
					}
					index := int(i)
					if index >= parts {
						index = (index - parts) * 5
					}
					if _, err := s.PutPart(ctx, blob.PartOptions{UploadID: u.ID, Index: index}, bytes.NewReader(body), 16); err != nil {
						errs <- err
						return
					}
				}
			}()
		}
		for range cap(errs) {
			testenv.OK(b, <-errs)
		}
		b.StartTimer()
		testenv.Must(s.Complete(ctx, u.ID, blob.Totals{}, nil))(b)
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

// BenchmarkReadBesideAScrub reads blobs with 4 callers, in turns while a scrub reads everything
// again and again, as fast as it may beside requests, and without one. It reports both throughputs,
// and how large the one beside the scrub is in relation to the other.
func BenchmarkReadBesideAScrub(b *testing.B) {
	const blobs, callers, turn = 64, 4, 256 // reads of each caller in a turn
	for _, kib := range []int{64, 1 << 10} {
		b.Run(fmt.Sprintf("%dKiB", kib), func(b *testing.B) {
			s, _ := newDurable(b, blob.Options{InlineSize: -1, Busy: func() bool { return true }})
			for i := range blobs {
				body := randomBytes(uint64(i), kib<<10)
				testenv.Must(s.Put(b.Context(), to(strconv.Itoa(i)), bytes.NewReader(body), int64(len(body))))(b)
			}
			reads := func() time.Duration {
				began := time.Now()
				var all sync.WaitGroup
				for caller := range callers {
					all.Go(func() {
						for i := range turn {
							c := testenv.Must(s.Open(b.Context(), "a", strconv.Itoa((caller+i)%blobs)))(b)
							testenv.Check(b, testenv.Error(c.WriteRange(b.Context(), io.Discard, 0, c.Size)))
							c.Close()
						}
					})
				}
				all.Wait()
				return time.Since(began)
			}
			beside := func() time.Duration {
				ctx, stop := context.WithCancel(b.Context())
				var ended sync.WaitGroup
				ended.Go(func() {
					for ctx.Err() == nil {
						if _, err := s.Scrub(ctx); err != nil && ctx.Err() == nil {
							b.Error(err)
							return
						}
					}
				})
				defer ended.Wait()
				defer stop()
				return reads()
			}
			var with, without time.Duration
			for b.Loop() {
				with += beside()
				without += reads()
			}
			mb := float64(b.N) * callers * turn * float64(kib<<10) / 1e6
			b.ReportMetric(mb/with.Seconds(), "MB/s-beside")
			b.ReportMetric(mb/without.Seconds(), "MB/s-alone")
			b.ReportMetric(without.Seconds()/with.Seconds(), "ratio")
			b.ReportMetric(float64(s.Stats().Scrubbed)/1e6/with.Seconds(), "MB/s-scrubbed")
		})
	}
}

// BenchmarkOverwrite overwrites a few names concurrently while Run frees the garbage, and reports
// how much garbage is left at the end.
func BenchmarkOverwrite(b *testing.B) {
	for _, size := range []int{4 << 10, 20 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			s, meta := newDurable(b, blob.Options{})
			ctx, stop := context.WithCancel(context.Background())
			done := make(chan struct{})
			go func() {
				defer close(done)
				s.Run(ctx, reportTo(b))
			}()
			body := randomBytes(1, size)
			var n atomic.Int64
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					name := strconv.FormatInt(n.Add(1)%192, 10)
					if _, err := s.Put(ctx, to(name), bytes.NewReader(body), int64(len(body))); err != nil {
						b.Error(err)
					}
				}
			})
			b.StopTimer()
			stop()
			<-done
			left := testenv.Must(meta.GarbageBacklog(context.Background(), 0))(b)
			b.ReportMetric(float64(left.Contents), "garbage")
		})
	}
}

// slowDeletes is a store with a latency for each delete request: one for each object, or one for
// each call.
type slowDeletes struct {
	bytestore.Store
	each bool
}

func (s slowDeletes) Delete(ctx context.Context, names ...bytestore.Name) error {
	requests := 1
	if s.each {
		requests = len(names)
	}
	time.Sleep(time.Duration(requests) * 30 * time.Millisecond)
	return s.Store.Delete(ctx, names...)
}

// BenchmarkFree frees 2,000 contents of one object each in a store with a latency of 30 ms.
func BenchmarkFree(b *testing.B) {
	const contents = 2_000
	for _, each := range []bool{true, false} {
		name := "many-a-request"
		if each {
			name = "one-a-request"
		}
		b.Run(name, func(b *testing.B) {
			_, meta := newDurable(b, blob.Options{})
			s := blob.New(meta, slowDeletes{memory.New(), each}, blob.Options{InlineSize: -1})
			for b.Loop() {
				b.StopTimer()
				for range contents + 1 {
					testenv.Must(s.Put(b.Context(), to("n"), bytes.NewReader([]byte("x")), 1))(b)
				}
				b.StartTimer()
				testenv.OK(b, s.FreeGarbage(b.Context()))
			}
			b.ReportMetric(float64(contents*b.N)/b.Elapsed().Seconds(), "contents/s")
		})
	}
}

// BenchmarkDelete deletes blobs, which includes freeing them.
func BenchmarkDelete(b *testing.B) {
	for _, size := range []int{4 << 10, 20 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			s, _ := newDurable(b, blob.Options{})
			body := randomBytes(1, size)
			for b.Loop() {
				b.StopTimer()
				testenv.Must(s.Put(b.Context(), to("n"), bytes.NewReader(body), int64(size)))(b)
				b.StartTimer()
				testenv.OK(b, s.Delete(b.Context(), "a", "n", nil))
			}
		})
	}
}
