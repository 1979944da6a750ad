package sqlstore

import (
	"fmt"
	"slices"
	"testing"

	"sluice/database/sqlstore/internal/engine"
	"sluice/metastore"
	"sluice/test/testenv"
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
	for i := range got { // which are in accounts of their own, too
		got[i].Kept, got[i].KeptBytes = 0, 0
	}
	sameAccounts(tb, got, want)
	auditedExcept(tb, s, "its extents", "in all") // these rows have no extents, which are audited last
	return got
}

// rawBlob returns a statement that inserts a blob's row.
func rawBlob(account, name string, size int) string {
	return fmt.Sprintf(`INSERT INTO blobs (account, name_head, name_hash, name_tail, content, size, crc64, part_size, content_type, modified)
		VALUES (CAST('%s' AS BLOB), CAST('%s' AS BLOB), CAST('' AS BLOB), CAST('' AS BLOB), CAST('%-16s' AS BLOB), %d, 0, 0, CAST('' AS BLOB), 1);`,
		account, name, account+name, size)
}
