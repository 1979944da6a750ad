package meta

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/metastore"
	"sluice/test/testenv"
)

const (
	copyCallers = 8 // at once
	copyGroup   = 1000
)

// BenchmarkCopies copies all blobs below a prefix to another, moves the copies to a third, and
// deletes the moved ones: 10^4 blobs, or as many as the environment sets. It reports the time of a
// call, with 8 callers, and how many bytes the engine writes for it: to PostgreSQL's log, or of
// SQLite to the log and the database.
func BenchmarkCopies(b *testing.B) {
	n := smallestScale
	if value := os.Getenv(scaleEnv); value != "" {
		n = testenv.Must(strconv.Atoi(value))(b)
	}
	b.Run("sqlite", func(b *testing.B) {
		benchCopies(b, sqliteAtScale(b), n, func() int64 {
			text := testenv.Must(os.ReadFile("/proc/self/io"))(b) // Linux only
			_, rest, _ := bytes.Cut(text, []byte("wchar: "))
			line, _, _ := bytes.Cut(rest, []byte("\n"))
			return testenv.Must(strconv.ParseInt(string(line), 10, 64))(b)
		})
	})
	b.Run("postgres", func(b *testing.B) {
		s := postgresAtScale(b)
		benchCopies(b, s, n, func() (lsn int64) {
			testenv.OK(b, s.conn.QueryRow(b.Context(), `SELECT CAST(pg_current_wal_insert_lsn() - '0/0' AS BIGINT)`).Scan(&lsn))
			return lsn
		})
	})
}

func benchCopies(b *testing.B, s *scaleStore, n int, written func() int64) {
	ctx := b.Context()
	name := func(prefix string, i int) metastore.BlobName {
		return metastore.BlobName{Account: archive, Name: fmt.Sprintf("%s/%04d/%08d.json", prefix, i%copyGroup, i)}
	}
	rows := make([]scaleRow, 0, loadBatch)
	start := time.Now()
	for i := range n {
		row := newScaleRow(i, start)
		row.blob.Account, row.blob.Name = archive, name("from", i).Name
		if rows = append(rows, row); len(rows) == cap(rows) || i == n-1 {
			testenv.OK(b, s.load(ctx, rows))
			rows = rows[:0]
		}
	}
	testenv.OK(b, s.settle(ctx))
	each := func(verb string, call func(ctx context.Context, i int) error) {
		b.Run(fmt.Sprintf("%s/blobs=%d", verb, n), func(b *testing.B) {
			if b.N > 1 {
				b.Fatal("run it with -benchtime 1x: a blob is copied once")
			}
			before := written()
			var next atomic.Int64
			var callers sync.WaitGroup
			for range copyCallers {
				callers.Go(func() {
					for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
						if err := call(ctx, i); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			callers.Wait()
			b.ReportMetric(b.Elapsed().Seconds(), "s")
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(n), "µs/blob")
			b.ReportMetric(float64(written()-before)/float64(n), "written-B/blob")
			b.ReportMetric(0, "ns/op")
		})
	}
	each("copy", func(ctx context.Context, i int) error {
		to := name("copy", i)
		_, err := s.CopyBlob(ctx, metastore.Copy{From: name("from", i), To: metastore.Blob{Account: to.Account, Name: to.Name, Owner: "writer"}})
		return err
	})
	each("move", func(ctx context.Context, i int) error {
		_, err := s.MoveBlob(ctx, metastore.Move{From: name("copy", i), To: name("moved", i), Owner: "writer"})
		return err
	})
	each("delete", func(ctx context.Context, i int) error {
		to := name("moved", i)
		content, found, err := s.DeleteBlob(ctx, to.Account, to.Name, nil)
		if err == nil && (!found || content != (metastore.ContentID{})) {
			err = fmt.Errorf("%s: found %t, and its content %v is garbage", to.Name, found, content)
		}
		return err
	})
}
