package meta

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/access/actions"
	"sluice/database/sqlstore/internal/engine"
	"sluice/metastore"
	"sluice/test/testenv"
)

// manyVersions returns the rows of two names with many versions each, the oldest not Versioned, and
// of other names with a version that is not Versioned.
func manyVersions(names []string, versions int) (list []storedBlob) {
	start := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	add := func(name string, i int, versioned bool) {
		at := start.Add(time.Duration(i) * time.Second)
		list = append(list, storedBlob{Blob: metastore.Blob{
			Account: metastore.KeptOf("a"), Name: metastore.KeptName(name, at), Content: metastore.NewContentID(at), Size: 1, Modified: at, Since: at.Add(time.Second), Versioned: versioned,
		}})
	}
	for i := range versions {
		for _, name := range names {
			add(name, i, i > 0)
		}
		add(fmt.Sprint("m", i), i, false)
	}
	return list
}

// TestVersionsAreFoundByIndex looks for the newest versions of a name with many, and for the one
// that is not Versioned: each by an index, so that few pages are read, whatever statistics there
// are.
// Invariant 209.
func TestVersionsAreFoundByIndex(t *testing.T) {
	names := []string{"n", strings.Repeat("l", 2100)}
	rows := manyVersions(names, 5000)
	check := func(t *testing.T, s *Metastore, plan func(query, name string, in ...any)) {
		for _, name := range names {
			from, to := splitName(name+"\x00"), splitName(name+"\x01")
			testenv.OK(t, s.in.Read(t.Context(), func(x tx) error {
				null, err := x.nullVersion("a", name)
				if err != nil || null == nil || null.Versioned || null.Name != metastore.KeptName(name, rows[0].Modified) {
					t.Errorf("the null version is %+v, %v", null, err)
				}
				newest, err := x.keptVersions("a", name, "", 2)
				if err != nil || len(newest) != 2 || newest[0].Name != metastore.KeptName(name, rows[len(rows)-1].Modified) {
					t.Errorf("the newest versions are %+v, %v", newest, err)
				}
				if none, err := x.nullVersion("a", name+"n"); err != nil || none != nil {
					t.Errorf("without versions: %+v, %v", none, err)
				}
				in := engine.Args{[]byte(metastore.KeptOf("a")), from.head, from.tail, to.head, to.tail}
				plan(keptRows+x.keptNull(), "blobs_null", in...)
				newestBy := map[bool]string{true: keptInOrder, false: keptLongNames}[len(name) < headLen]
				if !x.Embedded() && len(name) >= headLen {
					newestBy = keptInHead
				}
				plan(keptRows+keptOf+newestBy+` LIMIT ($6 + 0)`, "", append(in, int64(1))...)
				return err
			}))
		}
	}
	t.Run("sqlite", func(t *testing.T) {
		s := openSQLite(t, engine.Options{})
		storeRows(t, s, nil, rows)
		check(t, s, func(query, index string, in ...any) {
			var got, line string
			var skipped engine.Integer
			testenv.OK(t, s.db.Read(t.Context(), func(x *engine.Tx) error {
				return x.Each("EXPLAIN QUERY PLAN "+query, in, engine.Args{&skipped, &skipped, &skipped, &line}, func() error {
					got += line
					return nil
				})
			}))
			if !strings.Contains(got, index) || !strings.Contains(got, "name_head") || strings.Contains(got, "TEMP") {
				t.Errorf("%s\nhas the plan\n%s", query, got)
			}
		})
	})
	t.Run("postgres", func(t *testing.T) {
		s, p := openPostgres(t)
		storeRows(t, s, p, rows)
		for _, prepare := range []string{"SELECT 1", "VACUUM ANALYZE blobs", "SET plan_cache_mode = force_generic_plan"} {
			testenv.Must(p.Exec(t.Context(), prepare))(t)
			check(t, s, func(query, index string, in ...any) {
				got, pages := pagesOf(t, s, p, query, in...)
				if pages < 1 || pages > 20 || !strings.Contains(got, index) {
					t.Errorf("after %s, %d pages are read by\n%s\n%s", prepare, pages, query, got)
				}
			})
		}
	})
}

// storeRows stores rows as they are, by a connection if the database is PostgreSQL.
func storeRows(tb testing.TB, s *Metastore, p *pgx.Conn, rows []storedBlob) {
	tb.Helper()
	if p == nil {
		testenv.OK(tb, s.in.Write(tb.Context(), func(x tx) error {
			for i := range rows {
				if err := x.insertRow(&rows[i]); err != nil {
					return err
				}
			}
			return nil
		}))
		return
	}
	values := make([][]any, len(rows))
	for i := range rows {
		n := splitName(rows[i].Name)
		values[i] = append(testenv.Must(rowValues(&rows[i], n))(tb), n.tail)
	}
	testenv.Must(p.CopyFrom(tb.Context(), pgx.Identifier{"blobs"}, strings.Split(rowColumns, ", "), pgx.CopyFromRows(values)))(tb)
	for i := range values {
		values[i] = []any{values[i][0], 1, rows[i].Size}
	}
	testenv.Must(p.CopyFrom(tb.Context(), pgx.Identifier{"account_deltas"}, []string{"account", "blobs", "bytes"}, pgx.CopyFromRows(values)))(tb)
}

// BenchmarkVersions measures accounts that keep versions: one with a thousand names and a version
// behind each, one with as many versions behind its names as the environment sets (default 10^5),
// and one name with a tenth of these.
func BenchmarkVersions(b *testing.B) {
	most := defaultScale
	if value := os.Getenv(scaleEnv); value != "" {
		most = testenv.Must(strconv.Atoi(value))(b)
	}
	b.Run("sqlite", func(b *testing.B) { benchVersions(b, sqliteAtScale(b), most) })
	b.Run("postgres", func(b *testing.B) { benchVersions(b, postgresAtScale(b), most) })
}

func benchVersions(b *testing.B, s *scaleStore, most int) {
	ctx, start := b.Context(), time.Now().Add(-time.Hour)
	for account, size := range map[string][2]int{"few": {1000, 1}, "many": {1000, most / 1000}, "one": {1, most / 10}} {
		testenv.Must(s.SetKeeping(ctx, account, func(k *metastore.Keeping) (*actions.Act, error) {
			k.State = metastore.KeepOn
			return nil, nil
		}))(b)
		var rows []storedBlob
		for i := range size[0] * (size[1] + 1) {
			at := engine.Truncate(start.Add(time.Duration(i) * time.Microsecond))
			row := storedBlob{Blob: metastore.Blob{Account: account, Name: photo(i % size[0]), Content: metastore.NewContentID(at), Modified: at, Versioned: true}}
			if i < size[0]*size[1] {
				row.Account, row.Name, row.Since = metastore.KeptOf(account), metastore.KeptName(row.Name, at), at
			}
			if rows = append(rows, row); len(rows) == loadBatch {
				storeRows(b, s.Metastore, s.conn, rows)
				rows = nil
			}
		}
		storeRows(b, s.Metastore, s.conn, rows)
	}
	testenv.OK(b, s.settle(ctx))
	for _, account := range []string{"few", "many"} {
		timed(b, "blobs-of-"+account, nil, func(int) error {
			return s.page(ctx, metastore.ListQuery{Account: account}, pageNames, 0)
		})
		timed(b, "versions-of-"+account, nil, func(int) error {
			return testenv.Error(s.ListVersions(ctx, metastore.VersionQuery{ListQuery: metastore.ListQuery{Account: account, Limit: pageNames}}))
		})
	}
	name := metastore.BlobName{Account: "one", Name: photo(0)}
	put := func(int) error {
		return testenv.Error(s.CommitBlob(ctx, metastore.Blob{Account: name.Account, Name: name.Name, Content: metastore.NewContentID(s.db.Now())}, nil, nil))
	}
	versions := func(limit int) []metastore.Blob {
		return testenv.Must(s.ListVersions(ctx, metastore.VersionQuery{ListQuery: metastore.ListQuery{Account: "one", Limit: limit}}))(b).Versions
	}
	timed(b, "put", nil, put)
	timed(b, "put-and-delete", put, func(int) error { return testenv.Error(s.RemoveBlob(ctx, metastore.Removal{BlobName: name})) })
	timed(b, "page", nil, func(int) error { versions(pageNames); return nil })
	testenv.OK(b, put(0))
	oldest := versions(3)[2]
	timed(b, "restore", nil, func(int) error {
		v := metastore.VersionName{BlobName: name, Version: metastore.VersionOf(&oldest)}
		return testenv.Error(s.CopyBlob(ctx, metastore.Copy{FromVersion: &v, To: metastore.Blob{Account: name.Account, Name: name.Name}}))
	})
	timed(b, "delete-version", nil, func(int) error {
		v := metastore.VersionName{BlobName: name, Version: metastore.VersionOf(&versions(1)[0])}
		return testenv.Error(s.DeleteVersion(ctx, metastore.Deletion{VersionName: v}))
	})
}
