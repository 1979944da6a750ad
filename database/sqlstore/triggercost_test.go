package sqlstore

import (
	"context"
	"slices"
	"testing"
	"time"

	"sluice/database/sqlstore/internal/enginetest"
	"sluice/internal/testenv"
	"sluice/metastore"
)

// BenchmarkGarbageTrigger measures what the trigger that counts shared contents for older nodes
// costs a deletion on PostgreSQL: with it and without it in turn, in two schemas of one server.
func BenchmarkGarbageTrigger(b *testing.B) {
	dsn := testenv.Postgres(b) // a schema of its own
	with, without := openAtPostgres(b), openNode(b, dsn)
	testenv.Must(enginetest.Connect(b, dsn).Exec(b.Context(), `DROP TRIGGER garbage_inserted ON garbage`))(b)
	took := map[*Store][]time.Duration{}
	ctx := context.Background()
	for i := range b.N {
		for _, s := range []*Store{with, without} {
			blob := metastore.Blob{Account: "a", Name: photo(i), Content: metastore.NewContentID(time.Now()), Size: metastore.MaxExtentSize}
			testenv.Must(s.CommitBlob(ctx, blob, objects(1), nil))(b)
			begun := time.Now()
			_, _, err := s.DeleteBlob(ctx, "a", blob.Name, nil)
			took[s] = append(took[s], time.Since(begun))
			testenv.OK(b, err)
		}
	}
	for s, name := range map[*Store]string{with: "with", without: "without"} {
		slices.Sort(took[s])
		b.ReportMetric(float64(took[s][b.N/2].Nanoseconds())/1000, "µs-"+name)
	}
	b.ReportMetric(0, "ns/op")
}
