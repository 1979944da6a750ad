package meta

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/enginetest"
	"sluice/metastore"
	"sluice/test/testenv"
)

// TestUnreferencedIsExact queries keys that are close together and far apart, with and without
// extents, in any order.
// Invariant 5.
func TestUnreferencedIsExact(t *testing.T) {
	check := func(t *testing.T, s *Metastore) {
		key := func(i int) string { return fmt.Sprintf("%04d-object", i) }
		held := map[string]bool{}
		for _, i := range rand.Perm(400)[:200] {
			held[key(i)] = true
			b := metastore.Blob{Account: "a", Name: key(i), Content: metastore.NewContentID(time.Now()), Size: 1}
			e := metastore.Extent{Size: 1, Blocks: []uint32{0}, Object: key(i), Created: time.Now()}
			testenv.Must(s.CommitBlob(t.Context(), b, []metastore.Extent{e}, nil))(t)
		}
		for range 100 {
			first := rand.IntN(400)
			numbers := rand.Perm(400 - first) // some of them used
			var keys, want []string
			for _, i := range numbers[:rand.IntN(len(numbers)+1)] {
				k := key(first + i)
				if keys = append(keys, k); !held[k] {
					want = append(want, k)
				}
			}
			got := testenv.Must(s.Unreferenced(t.Context(), keys))(t)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Fatalf("of %q\nthese are free: %q\nnot these: %q", keys, want, got)
			}
		}
	}
	t.Run("sqlite", func(t *testing.T) { check(t, openSQLite(t, engine.Options{})) })
	t.Run("postgres", func(t *testing.T) {
		s, _ := openPostgres(t)
		check(t, s)
	})
}

// TestGarbageThatIsNotDueIsNotRead: 100,000 contents that are not due add no cost to
// GarbageContents or GarbageBacklog.
// Invariant 127.
func TestGarbageThatIsNotDueIsNotRead(t *testing.T) {
	const contents = 100_000
	fill := func(t *testing.T, s *Metastore, bytesType string) {
		due := time.Now().Add(-2 * time.Hour).UnixMicro()
		testenv.OK(t, s.db.Write(t.Context(), func(x *engine.Tx) error {
			for i := range 2 {
				if _, err := x.Exec(`INSERT INTO garbage (content, since) VALUES ($1, $2)`, fmt.Appendf(nil, "due-%012d", i), due); err != nil {
					return err
				}
			}
			_, err := x.Exec(`WITH RECURSIVE n (i) AS (SELECT CAST($1 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < $2)
				INSERT INTO garbage (content, since) SELECT CAST(CAST(i AS TEXT) AS `+bytesType+`), $3 + i FROM n`,
				int64(1e15), int64(1e15+contents-1), time.Now().UnixMicro()-int64(1e15))
			if err != nil {
				return err
			}
			// Of live contents, of those that are not due, and of one that is.
			_, err = x.Exec(`WITH RECURSIVE n (i) AS (SELECT CAST($1 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < $2)
				INSERT INTO extents (content, part, off, size, blocks) SELECT CAST(CAST(i AS TEXT) AS `+bytesType+`), 0, 0, 5, $3 FROM n`,
				int64(1e15-contents/10), int64(1e15+contents/10), []byte{1, 2, 3, 4})
			if err != nil {
				return err
			}
			_, err = x.Exec(`INSERT INTO extents (content, part, off, size, blocks) VALUES ($1, 0, 0, 7, $2)`, []byte("due-000000000001"), []byte{1, 2, 3, 4})
			return err
		}))
		list, err := s.GarbageContents(t.Context(), time.Hour, metastore.GarbageContent{}, 1000)
		if err != nil || len(list) != 2 {
			t.Fatalf("%d contents are due, %v", len(list), err)
		}
		backlog, err := s.GarbageBacklog(t.Context(), time.Hour)
		if err != nil || backlog.Contents != 2 || backlog.Bytes != 7 || backlog.Oldest < 59*time.Minute {
			t.Fatalf("%+v, %v", backlog, err)
		}
		if backlog, err = s.GarbageBacklog(t.Context(), -time.Hour); err != nil || backlog.Contents != metastore.MaxBacklog {
			t.Fatalf("with everything due: %+v, %v", backlog, err)
		}
	}
	first, now := time.Time{}.UnixMicro(), time.Now().Add(-time.Hour).UnixMicro()
	look := engine.Args{first, make([]byte, 16), now, int64(1000)}
	measure := engine.Args{now, int64(metastore.MaxBacklog)}
	t.Run("sqlite", func(t *testing.T) {
		s := openSQLite(t, engine.Options{})
		fill(t, s, "BLOB")
		for query, want := range map[string]string{
			dueGarbage:   "COVERING INDEX garbage_since ((since,content)>(?,?) AND since<?)",
			backlogSize:  "COVERING INDEX garbage_since (since<?)",
			backlogBytes: "COVERING INDEX garbage_since (since<?)",
		} {
			in := look
			if query != dueGarbage {
				in = measure
			}
			var got, line string
			var skipped engine.Integer
			testenv.OK(t, s.db.Read(t.Context(), func(x *engine.Tx) error {
				return x.Each("EXPLAIN QUERY PLAN "+query, in, engine.Args{&skipped, &skipped, &skipped, &line}, func() error {
					if strings.Contains(line, "garbage_since") {
						got = line
					}
					return nil
				})
			}))
			if !strings.Contains(got, want) {
				t.Errorf("%s\nhas the plan\n%s\nwant %s", query, got, want)
			}
		}
	})
	t.Run("postgres", func(t *testing.T) {
		s, p := openPostgres(t)
		fill(t, s, "BYTEA")
		for _, analysed := range []bool{false, true} {
			if analysed {
				testenv.Must(p.Exec(t.Context(), "VACUUM ANALYZE garbage, extents"))(t)
			}
			for query, in := range map[string]engine.Args{dueGarbage: look, backlogSize: measure, backlogBytes: measure} {
				got, pages := pagesOf(t, s, p, query, in...)
				if pages < 1 || pages > 20 || strings.Contains(got, "Filter") {
					t.Errorf("analysed %v: %d pages are read:\n%s", analysed, pages, got)
				}
			}
		}
	})
}

// pagesOf returns PostgreSQL's plan for a query, and how many pages it reads.
func pagesOf(t *testing.T, s *Metastore, p *pgx.Conn, query string, in ...any) (plan string, pages int) {
	t.Helper()
	plan = enginetest.Explain(t, s.db, p, "(ANALYZE, BUFFERS)", query, in...)
	top, _, _ := strings.Cut(plan, "Planning")
	if found := regexp.MustCompile(`Buffers: shared (?:hit=(\d+))? ?(?:read=(\d+))?`).FindStringSubmatch(top); found != nil {
		for _, n := range found[1:] {
			m, _ := strconv.Atoi("0" + n)
			pages += m
		}
	}
	return plan, pages
}

// TestPagesOfExtentsReadTheirRows reads a page in the middle of many inline extents, as a check and
// a scrub do: PostgreSQL reads a few pages for each row, and not all rows before them. The rows are
// not stored in the order of their keys.
func TestPagesOfExtentsReadTheirRows(t *testing.T) {
	const extents, limit, most = 60_000, 100, 15 * 100
	s, p := openPostgres(t)
	for _, fill := range []string{
		`INSERT INTO extents (content, part, off, size, blocks) SELECT convert_to(to_char(i * 7919 %% 60013, 'FM0000000000000000'), 'UTF8'), 0, 0, 20, 'four' FROM generate_series(1, %d) i`,
		`INSERT INTO bodies (content, part, off, body) SELECT convert_to(to_char(i * 7919 %% 60013, 'FM0000000000000000'), 'UTF8'), 0, 0, 'twenty bytes of body' FROM generate_series(1, %d) i`,
	} {
		testenv.Must(p.Exec(t.Context(), fmt.Sprintf(fill, extents)))(t)
	}
	for _, prepare := range []string{
		"VACUUM ANALYZE garbage, extents, bodies",
		"SET plan_cache_mode = force_generic_plan", // as after some executions: it does not know the limit
		"PREPARE scrubbed (bytea, bigint, bigint, bigint) AS " + storedExtents,
		"PREPARE checked (bytea, bigint, bigint, bigint) AS " + inlineBodies,
	} {
		testenv.Must(p.Exec(t.Context(), prepare))(t)
	}
	for _, query := range []string{"scrubbed", "checked"} {
		if plan, pages := pagesOf(t, s, p, fmt.Sprintf("EXECUTE %s ('%016d', 0, 0, %d)", query, extents/2, limit)); pages < limit || pages > most {
			t.Errorf("%d pages are read:\n%s", pages, plan)
		}
	}
}
