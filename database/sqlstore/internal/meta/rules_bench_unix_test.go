//go:build unix

package meta

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"sluice/access/actions"
	"sluice/metastore"
	"sluice/test/testenv"
)

// BenchmarkRules measures a run of 100 rules for all blobs, every other one with tags, over 10^5
// blobs with three tags, or as many as the environment sets. Nothing is due. It reports the
// processor seconds of this process.
func BenchmarkRules(b *testing.B) {
	blobs := defaultScale
	if value := os.Getenv(scaleEnv); value != "" {
		blobs = testenv.Must(strconv.Atoi(value))(b)
	}
	b.Run("sqlite", func(b *testing.B) { benchRules(b, sqliteAtScale(b), blobs) })
	b.Run("postgres", func(b *testing.B) { benchRules(b, postgresAtScale(b), blobs) })
}

func benchRules(b *testing.B, s *scaleStore, blobs int) {
	ctx, now := b.Context(), s.db.Now()
	for n := 0; n < blobs; {
		rows := make([]scaleRow, min(loadBatch, blobs-n))
		for i := range rows {
			id := metastore.NewContentID(now)
			rows[i].blob = metastore.Blob{Account: "ruled", Name: fmt.Sprintf("logs/%08d/%x", n, id[8:]), Content: id, Size: int64(n + 1), Modified: now, Metadata: fmt.Sprintf("X-Amz-Tagging:app&web&class&%d&team&blue\n", n%7)}
			rows[i].extent = metastore.Extent{Size: int64(n + 1), Blocks: []uint32{1}, Object: fmt.Sprint("object", n)}
			n++
		}
		testenv.OK(b, s.load(ctx, rows))
	}
	testenv.OK(b, s.settle(ctx))
	if s.conn != nil {
		testenv.Must(s.conn.Exec(ctx, `UPDATE blobs SET metadata = convert_to('X-Amz-Tagging:app&web&class&3&team&blue' || chr(10), 'UTF8')`))(b)
	}
	var rules []metastore.Rule
	for i := range metastore.MaxRules {
		r := metastore.Rule{ID: fmt.Sprint(i), Prefix: "logs/", Below: int64(blobs + i), ExpireDays: 1 + i}
		if i%2 == 0 {
			r.Tags = map[string]string{"class": fmt.Sprint(i % 7), "team": "blue"}
		}
		rules = append(rules, r)
	}
	for b.Loop() {
		testenv.Must(s.SetRules(ctx, "ruled", func(was *[]metastore.Rule) (*actions.Act, error) {
			rules[0].ExpireDays++
			*was = rules
			return nil, nil
		}))(b)
		before := processor(b)
		for more := true; more; {
			var err error
			_, more, err = s.ApplyRules(ctx, 500)
			testenv.OK(b, err)
		}
		b.ReportMetric((processor(b) - before).Seconds(), "cpu-s/pass")
	}
	last := testenv.Must(s.Rules(ctx, "ruled"))(b).Last
	if last == nil || last.Looked != int64(blobs) || len(last.Taken) > 0 {
		b.Errorf("the run: %+v", last)
	}
}

// processor returns the processor time that this process has used.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	testenv.OK(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
