package meta

import (
	"slices"
	"strings"
	"testing"

	"sluice/database/sqlstore/internal/enginetest"
	"sluice/metastore"
	"sluice/test/testenv"
)

// TestAccountsAreListedByIndex looks at the plans for a page of accounts in large tables: none
// scans a table or sorts it.
func TestAccountsAreListedByIndex(t *testing.T) {
	s, p := openPostgres(t)
	for _, statement := range []string{
		`INSERT INTO account_sums (account, blobs, bytes) SELECT convert_to(lpad(to_hex(i), 8, '0'), 'UTF8'), 1, 1 FROM generate_series(1, 50000) n(i)`,
		`INSERT INTO account_deltas (account, blobs, bytes) SELECT convert_to(lpad(to_hex(i % 10000), 8, '0'), 'UTF8'), 1, 1 FROM generate_series(1, 50000) n(i)`,
		`ANALYZE`,
	} {
		testenv.Must(p.Exec(t.Context(), statement))(t)
	}
	plan := enginetest.Explain(t, s.db, p, "", accountDeltas, []byte("00000100"), int64(11))
	if strings.Contains(plan, "Sort") || strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "HashAggregate") {
		t.Errorf("the deltas are read by\n%s", plan)
	}
	list, err := s.ListAccounts(t.Context(), "00000100", 2)
	if want := []metastore.Account{{Account: "00000101", Blobs: 6, Bytes: 6}, {Account: "00000102", Blobs: 6, Bytes: 6}}; err != nil || !slices.Equal(list, want) {
		t.Errorf("got %+v, %v; want %+v", list, err, want)
	}
}
