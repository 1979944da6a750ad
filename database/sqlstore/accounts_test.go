package sqlstore

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/enginetest"
	"sluice/internal/testenv"
	"sluice/metastore"
)

// sameAccounts ends the test unless the counts of accounts are these.
func sameAccounts(tb testing.TB, got, want []metastore.Account) {
	tb.Helper()
	if !slices.Equal(got, want) {
		tb.Fatalf("the accounts are %+v, want %+v", got, want)
	}
}

// accountsAreExact compares the counts of all accounts with the blobs.
func accountsAreExact(tb testing.TB, s *Store) []metastore.Account {
	tb.Helper()
	var want []metastore.Account
	testenv.OK(tb, s.db.Snapshot(tb.Context(), func(t *engine.Tx) (err error) {
		var a metastore.Account
		want, err = engine.Collect(t, `SELECT account, COUNT(*), CAST(SUM(size) AS BIGINT) FROM blobs GROUP BY account ORDER BY account`, nil,
			engine.Args{&a.Account, (*engine.Integer)(&a.Blobs), (*engine.Integer)(&a.Bytes)}, &a)
		return err
	}))
	got := testenv.Must(s.ListAccounts(tb.Context(), "", 1000))(tb)
	sameAccounts(tb, got, want)
	auditedExcept(tb, s, "its extents", "in all") // these rows have no extents, which are audited last
	return got
}

// rawBlob returns the statement by which the previous version inserts a blob.
func rawBlob(account, name string, size int) string {
	return fmt.Sprintf(`INSERT INTO blobs (account, name_head, name_hash, name_tail, content, size, crc64, part_size, content_type, modified)
		VALUES (CAST('%s' AS BLOB), CAST('%s' AS BLOB), CAST('' AS BLOB), CAST('' AS BLOB), CAST('%-16s' AS BLOB), %d, 0, 0, CAST('' AS BLOB), 1);`,
		account, name, account+name, size)
}

// accountsVersion is the schema version before the counts of accounts.
const accountsVersion = 12

// TestMigratesAccounts: the migration counts the stored blobs, and what the previous version's node
// writes afterwards is counted too.
func TestMigratesAccounts(t *testing.T) {
	rows := rawBlob("a", "one", 10) + rawBlob("a", "two", 0) + rawBlob("b", "one", 7)
	onOlder(t, accountsVersion, rows, func(t *testing.T, s *Store) {
		want := []metastore.Account{{Account: "a", Blobs: 2, Bytes: 10}, {Account: "b", Blobs: 1, Bytes: 7}}
		sameAccounts(t, accountsAreExact(t, s), want)
		for _, statement := range []string{
			rawBlob("b", "two", 3), rawBlob("c", "one", 1),
			`UPDATE blobs SET size = 20 WHERE account = CAST('a' AS BLOB) AND size = 10`,
			`DELETE FROM blobs WHERE account = CAST('c' AS BLOB)`,
		} {
			executeOlder(t, s, statement)
			accountsAreExact(t, s)
		}
		testenv.Must(s.Purge(t.Context(), 100))(t)
		want = []metastore.Account{{Account: "a", Blobs: 2, Bytes: 20}, {Account: "b", Blobs: 2, Bytes: 10}}
		sameAccounts(t, accountsAreExact(t, s), want)
		holds(t, s, 0, `SELECT COUNT(*) FROM account_deltas`)
	})
}

// TestMigratesAccountsUnderWrites migrates while the previous version writes: each blob is counted
// once.
func TestMigratesAccountsUnderWrites(t *testing.T) {
	dsn, _ := olderPostgres(t, accountsVersion, "")
	const writers, atLeast = 4, 30
	migrated := make(chan struct{})
	var begun, done sync.WaitGroup
	begun.Add(writers)
	for i := range writers {
		older := enginetest.Connect(t, dsn)
		done.Go(func() {
			for k, after := 0, 0; after < atLeast; k++ {
				blob := rawBlob(fmt.Sprint("account", k%3), fmt.Sprint(i, "-", k), k%5)
				testenv.Check(t, testenv.Error(older.Exec(t.Context(), forPostgres(blob))))
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
	s := openNode(t, dsn)
	close(migrated)
	done.Wait()
	accountsAreExact(t, s)
	testenv.Must(s.Purge(t.Context(), 1000))(t)
	accountsAreExact(t, s)
}

// TestAccountsCostNoStatement: a blob's commit runs no statement that names the counts, because
// triggers keep them.
func TestAccountsCostNoStatement(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		var statements []statement
		record(s, &statements)
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
