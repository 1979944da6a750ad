package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"sluice/internal/testenv"
	"sluice/metastore"
)

// accountsOf returns the counts of all accounts.
func accountsOf(tb testing.TB, s *Store) []metastore.Account {
	tb.Helper()
	list, err := s.ListAccounts(tb.Context(), "", 1000)
	if err != nil {
		tb.Fatal(err)
	}
	return list
}

// accountsAreExact compares the counts of all accounts with the blobs.
func accountsAreExact(tb testing.TB, s *Store) []metastore.Account {
	tb.Helper()
	var want []metastore.Account
	err := s.db.snapshot(tb.Context(), func(t *tx) (err error) {
		var a metastore.Account
		want, err = collect(t, `SELECT account, COUNT(*), CAST(SUM(size) AS BIGINT) FROM blobs GROUP BY account ORDER BY account`, nil,
			args{&a.Account, (*integer)(&a.Blobs), (*integer)(&a.Bytes)}, &a)
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	got := accountsOf(tb, s)
	if !slices.Equal(got, want) {
		tb.Fatalf("the accounts are %+v, but there is %+v", got, want)
	}
	if found, err := s.Audit(tb.Context()); err != nil || len(found) > 0 {
		tb.Fatalf("the audit found %q, %v", found, err)
	}
	return got
}

// rawBlob returns the statement by which the previous version inserts a blob.
func rawBlob(account, name string, size int) string {
	return fmt.Sprintf(`INSERT INTO blobs (account, name_head, name_hash, name_tail, content, size, crc64, part_size, content_type, modified)
		VALUES (CAST('%s' AS BLOB), CAST('%s' AS BLOB), CAST('' AS BLOB), CAST('' AS BLOB), CAST('%-16s' AS BLOB), %d, 0, 0, CAST('' AS BLOB), 1);`,
		account, name, account+name, size)
}

// accountsVersion is the version of the schema before the counts of accounts.
const accountsVersion = 12

// TestMigratesAccounts: the migration counts the stored blobs, and what a node of the previous
// version writes afterwards is counted too.
func TestMigratesAccounts(t *testing.T) {
	rows := rawBlob("a", "one", 10) + rawBlob("a", "two", 0) + rawBlob("b", "one", 7)
	onOlder(t, accountsVersion, rows, func(t *testing.T, s *Store) {
		want := []metastore.Account{{Account: "a", Blobs: 2, Bytes: 10}, {Account: "b", Blobs: 1, Bytes: 7}}
		if got := accountsAreExact(t, s); !slices.Equal(got, want) {
			t.Errorf("the accounts are %+v, want %+v", got, want)
		}
		postgres := s.db.eng.listsInside()
		for _, statement := range []string{
			rawBlob("b", "two", 3), rawBlob("c", "one", 1),
			`UPDATE blobs SET size = 20 WHERE account = CAST('a' AS BLOB) AND size = 10`,
			`DELETE FROM blobs WHERE account = CAST('c' AS BLOB)`,
		} {
			if postgres {
				statement = forPostgres(statement)
			}
			err := s.db.write(t.Context(), func(tx *tx) error {
				_, err := tx.exec(strings.TrimSuffix(statement, ";"))
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			accountsAreExact(t, s)
		}
		if _, err := s.Purge(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		want = []metastore.Account{{Account: "a", Blobs: 2, Bytes: 20}, {Account: "b", Blobs: 2, Bytes: 10}}
		if got := accountsAreExact(t, s); !slices.Equal(got, want) {
			t.Errorf("the accounts are %+v, want %+v", got, want)
		}
		if n := value(t, s, `SELECT COUNT(*) FROM account_deltas`); n != 0 {
			t.Errorf("%d deltas are left after a purge", n)
		}
	})
}

// TestMigratesAccountsUnderWrites migrates while the previous version writes: each blob is counted
// once.
func TestMigratesAccountsUnderWrites(t *testing.T) {
	dsn := testenv.Postgres(t)
	c := connectPostgres(t, dsn)
	if err := migrate(c, listMigrations(t, postgresMigrations)[:accountsVersion]); err != nil {
		t.Fatal(err)
	}
	const writers, atLeast = 4, 30
	migrated := make(chan struct{})
	var begun, done sync.WaitGroup
	begun.Add(writers)
	for i := range writers {
		older := connectPostgres(t, dsn)
		done.Go(func() {
			for k, after := 0, 0; after < atLeast; k++ {
				if err := older.script(forPostgres(rawBlob(fmt.Sprint("account", k%3), fmt.Sprint(i, "-", k), k%5))); err != nil {
					t.Error(err)
				}
				if k == atLeast {
					begun.Done()
				}
				select {
				case <-migrated:
					after++
				default:
				}
			}
		})
	}
	begun.Wait()
	s, _ := openNode(t, dsn)
	close(migrated)
	done.Wait()
	accountsAreExact(t, s)
	if _, err := s.Purge(t.Context(), 1000); err != nil {
		t.Fatal(err)
	}
	accountsAreExact(t, s)
}

// TestAccountsCostNoStatement: a commit of a blob runs the same statements with and without an
// account that has blobs, and none of them names the counts, which triggers keep.
func TestAccountsCostNoStatement(t *testing.T) {
	for name, open := range map[string]func() (engine, error){
		"SQLite": func() (engine, error) { return openSQLite(databasePath(t), EngineOptions{}) },
		"PostgreSQL": func() (engine, error) {
			return openPostgres(context.Background(), testenv.Postgres(t), EngineOptions{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := open()
			if err != nil {
				t.Fatal(err)
			}
			var statements []statement
			s := newStore(NewDB(recorded(e, &statements), nil), nil)
			defer closing(t, s)
			putFor(t, s, "", "one", "abc")
			putFor(t, s, "", "one", "abcd")
			if len(statements) == 0 {
				t.Fatal("no statement was recorded")
			}
			for _, one := range statements {
				if strings.Contains(one.text, "account_") {
					t.Errorf("a commit runs %s", one.text)
				}
			}
			accountsAreExact(t, s)
		})
	}
}

// TestAccountsAreListedByIndex looks at the plans of a page of accounts over large tables: none
// scans a table or sorts it.
func TestAccountsAreListedByIndex(t *testing.T) {
	s, p := openNode(t, testenv.Postgres(t))
	for _, statement := range []string{
		`INSERT INTO account_sums (account, blobs, bytes) SELECT convert_to(lpad(to_hex(i), 8, '0'), 'UTF8'), 1, 1 FROM generate_series(1, 50000) n(i)`,
		`INSERT INTO account_deltas (account, blobs, bytes) SELECT convert_to(lpad(to_hex(i % 10000), 8, '0'), 'UTF8'), 1, 1 FROM generate_series(1, 50000) n(i)`,
		`ANALYZE`,
	} {
		if _, err := p.pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := p.pool.Query(t.Context(), "EXPLAIN "+accountDeltas, []byte("00000100"), int64(11))
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	plan := strings.Join(lines, "\n")
	if strings.Contains(plan, "Sort") || strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "HashAggregate") {
		t.Errorf("the deltas are read by\n%s", plan)
	}
	list, err := s.ListAccounts(t.Context(), "00000100", 2)
	if want := []metastore.Account{{Account: "00000101", Blobs: 6, Bytes: 6}, {Account: "00000102", Blobs: 6, Bytes: 6}}; err != nil || !slices.Equal(list, want) {
		t.Errorf("got %+v, %v; want %+v", list, err, want)
	}
}
