package meta

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

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
		testenv.OK(t, s.in.Write(t.Context(), func(x tx) error {
			for i := range rows {
				if err := x.insertRow(&rows[i]); err != nil {
					return err
				}
			}
			return nil
		}))
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
		values := make([][]any, len(rows))
		for i := range rows {
			n := splitName(rows[i].Name)
			values[i] = append(testenv.Must(rowValues(&rows[i], n))(t), n.tail)
		}
		testenv.Must(p.CopyFrom(t.Context(), pgx.Identifier{"blobs"}, strings.Split(rowColumns, ", "), pgx.CopyFromRows(values)))(t)
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
